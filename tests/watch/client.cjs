// Calls the proxy with the SDKs for Node, whose packages are in the folder of the first argument; prints what it got.
const { createRequire } = require("node:module");

const [folder, url, name, mode] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const messages = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const parameters = { type: "object", properties: {} };
const streamed = mode === "stream";

async function chat() {
  const OpenAI = load("openai").default;
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-live-SECRET", maxRetries: 3 });
  const tools = [{ type: "function", function: { name: "read", parameters } }];
  const asked = { model: "m", messages, tools };
  if (!streamed) return (await client.chat.completions.create(asked)).choices[0].message;
  const runner = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
  return await runner.finalMessage();
}

async function responses() {
  const OpenAI = load("openai").default;
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-live-SECRET", maxRetries: 3 });
  const asked = { model: "m", input: messages, tools: [{ type: "function", name: "read", parameters, strict: false }] };
  if (!streamed) return (await client.responses.create(asked)).output[0];
  const stream = client.responses.stream(asked);
  return (await stream.finalResponse()).output[0];
}

async function anthropic() {
  const Anthropic = load("@anthropic-ai/sdk").default;
  const client = new Anthropic({ baseURL: url, apiKey: "sk-live-SECRET", maxRetries: 3 });
  const asked = { model: "m", max_tokens: 100, messages, tools: [{ name: "read", input_schema: parameters }] };
  if (!streamed) return (await client.messages.create(asked)).content[0];
  return (await client.messages.stream(asked).finalMessage()).content[0];
}

const calls = { openai: chat, "openai-responses": responses, anthropic };
calls[name]().then((found) => console.log(JSON.stringify(found)));
