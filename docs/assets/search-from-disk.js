// A page opened from disk may not start a worker, and the search runs in one. Here is a stand-in with the same face: the
// worker's script runs in a hidden frame, and messages are passed on as events. Pages from a server keep the real thing.
(() => {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      // Some browsers replace an untouched empty document a moment later; one that was written stays.
      this.frame.contentDocument.open();
      this.frame.contentDocument.write("<!doctype html><body></body>");
      this.frame.contentDocument.close();
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.#receive(data);
      inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => this.#load(next)), Promise.resolve());
      this.ready = this.#load(url);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }

    #receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    #load(url) {
      return new Promise((resolve, reject) => {
        const inside = this.frame.contentDocument;
        const script = inside.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`cannot load ${url}`));
        inside.body.append(script);
      });
    }
  }

  // The worker looks for this name to find its own folder from inside the frame.
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
