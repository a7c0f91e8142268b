# Everything runs in $(VENV), which the first target that needs it builds: with uv where it is installed, else with
# venv and pip. A stamp file per dependency group, older than pyproject.toml or absent, is what triggers an install.
VENV ?= .venv
PYTHON ?= $(shell scripts/find-python)

BIN := $(VENV)/bin
RUN := $(BIN)/python -m
UV := $(shell command -v uv 2>/dev/null)
# The extras light enough for everyday work; frameworks have environments of their own.
EXTRAS := cli,tokens,otel,batch,relevance,optimal,testing,watch
CORE := model _internal/columns scorers slicers placers pipeline
# What shows the core at work: its own tests and examples, and those of whoever asks it for reports, budgets and replays.
CORE_TESTS := $(wildcard $(foreach name,$(CORE) _internal/relations oracle analytics diagnostics page,tests/$(name)) $(foreach name,$(CORE),src/cupel/$(name) src/cupel/$(name).py))
VERSIONS := 3.11 3.12 3.13 3.14
PEERS := agent-framework haystack langchain litellm openai-agents pydantic-ai-harness strands
FRAMEWORKS := botocore claude-agent-sdk dask genai google-adk haystack langchain litellm llamaindex mcp openai-agents pydantic-ai sdks splintr

ifdef UV
NEW_VENV = uv venv --quiet --seed --clear --python "$(PYTHON)" $(VENV)
INSTALL = uv pip install --quiet --python $(BIN)/python
else
NEW_VENV = "$(PYTHON)" -m venv --clear $(VENV)
# Dependency groups need pip 25.1; an interpreter may bring an older one.
INSTALL = $(RUN) pip install --quiet 'pip>=25.1' && $(RUN) pip install --quiet
endif

# The tests start the command some three hundred times: modules are compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check format test-all test-lowest oldest same-reports test-integrations test-watch-node test-servers fuzz fuzz-messages kill-batch coverage mutants bench bench-check measure docs pages build try-dist clean
.SECONDARY:

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  %-18s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.stamp-demo ## Select the context of a coding-agent session and write the page that explains it
	@$(BIN)/cupel demo

test: $(VENV)/.stamp-dev ## Run the tests, the doctests, every example in the documentation and, under node, the scripts of the page
	$(RUN) pytest -n auto

check: $(VENV)/.stamp-dev ## Lint, check formatting, types, layers, dependencies and workflows
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy src tests/typing
	$(RUN) pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/zizmor --offline --no-progress .github

format: $(VENV)/.stamp-dev ## Format the code and fix what ruff can fix
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

test-all: ## Run the tests on every supported Python that is found
	@for version in $(VERSIONS); do \
	  if python=$$(scripts/find-python $$version 2>/dev/null); then \
	    echo "== Python $$version: $$python"; \
	    $(MAKE) --no-print-directory test VENV=.venvs/$$version PYTHON="$$python" || exit 1; \
	  else echo "== Python $$version: not found, skipped"; fi; \
	done

test-lowest: ## Run the tests with the oldest dependencies that pyproject.toml allows
	@$(MAKE) --no-print-directory oldest test VENV=.venvs/lowest

oldest: $(VENV)/.stamp-dev
	$(INSTALL) $$(sed -n -e '/^dependencies/,/^testing/p' -e '/^watch = /p' -e '/^test = /p' pyproject.toml | grep -v '^dask' | grep -o '[A-Za-z0-9-]*\(\[[a-z]*\]\)\?>=[0-9.]*' | sed 's/>=/==/')

same-reports: ## Compare a fixed set of reports, byte by byte, between all supported Pythons that are found
	@for version in $(VERSIONS); do \
	  if python=$$(scripts/find-python $$version 2>/dev/null); then \
	    $(MAKE) --no-print-directory .venvs/$$version/.stamp-demo VENV=.venvs/$$version PYTHON="$$python" || exit 1; \
	    pythons="$$pythons .venvs/$$version/bin/python"; \
	  else echo "Python $$version: not found, skipped"; fi; \
	done; scripts/same-reports $$pythons

coverage: $(VENV)/.stamp-dev ## Require 100 % branch coverage of the core packages
	$(RUN) pytest -n auto --cov --cov-fail-under=100 $(CORE_TESTS)

mutants: $(VENV)/.stamp-dev $(VENV)/.stamp-mutants ## Try every 10th mutant of the core and print the surviving share (PACKAGES="slicers placers" EVERY=1)
	$(BIN)/python scripts/mutants.py --every $(or $(EVERY),10) $(or $(PACKAGES),$(CORE))

# The judge brings a language model, and every peer its dependencies: each is installed when its part is named.
JUDGE := $(if $(filter surprise%,$(PARTS)),surprise,bench)

bench: $(if $(filter conversation-peers surprise-peers,$(PARTS)),$(addprefix peer-,$(PEERS))) ## Measure everything beside its peers, in an environment of its own, and write the figures into the pages (ten minutes; PARTS="sessions surprise")
	@$(MAKE) --no-print-directory measure JUDGE=$(JUDGE) VENV=.venvs/$(JUDGE) EXTRAS=testing,relevance,tokens,optimal

measure: $(VENV)/.stamp-$(JUDGE)
	$(RUN) benchmarks $(PARTS)

peer-%:
	@$(MAKE) --no-print-directory .venvs/$@/.stamp-$@ VENV=.venvs/$@ EXTRAS=tokens || echo "$* cannot be installed here, and is not measured"

bench-check: $(VENV)/.stamp-dev ## Count the instructions of small scenarios under valgrind and refuse 5 % more than the committed figures
	$(RUN) benchmarks.instructions

test-integrations: $(addprefix framework-,$(FRAMEWORKS)) ## Run the tests and pages of each framework against the real package, in its own environment

framework-%: $(VENV)/.stamp-dev
	@PATH="$(abspath $(BIN)):$$PATH" $(MAKE) --no-print-directory integration-$* VENV=.venvs/$* EXTRAS=testing,tokens

integration-%: $(VENV)/.stamp-integration-%
	$(RUN) pytest -q $(wildcard tests/integrations/test_$(subst -,_,$*).py tests/integrations/test_$(subst -,_,$*)_sessions.py tests/batch/test_$*.py tests/messages/test_$*.py tests/watch/test_$*.py) \
	  $(if $(wildcard docs/how-to/$*.md),"tests/test_docs.py::test_page[docs/how-to/$*.md]")

test-watch-node: $(VENV)/.stamp-dev ## Run the SDKs for Node, Claude Code, Codex and opencode through the proxy of cupel watch, and read the logs of the agents (needs node and npm)
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix .venvs/node openai@6 @anthropic-ai/sdk@1 \
	  @anthropic-ai/claude-code@2 @openai/codex opencode-ai@1
	cd .venvs/node/node_modules/@anthropic-ai/claude-code && node install.cjs
	cd .venvs/node/node_modules/opencode-ai && node postinstall.mjs
	CUPEL_NODE_SDKS=.venvs/node $(RUN) pytest -q -n 0 tests/watch/test_node.py tests/watch/test_clients.py \
	  tests/watch/test_client_logs.py tests/watch/test_governing.py::test_a_large_request_keeps_no_other_waiting

test-servers: $(VENV)/.stamp-dev $(VENV)/.stamp-servers ## Run the recipes for web servers with Debian's Redis and PostgreSQL, which are installed if missing
	scripts/install-servers
	$(RUN) pytest -q -n 0 tests/servers

fuzz: $(VENV)/.stamp-dev ## Search for counterexamples to the laws of the core, 20,000 examples each, differently each time
	$(RUN) pytest -n auto --hypothesis-profile=fuzz tests/oracle tests/_internal/relations tests/policy tests/shorten tests/slicers

fuzz-messages: $(VENV)/.stamp-dev ## Check 20,000 fits and 2,000 conversations of each format against the providers' rules (COUNT=20000 SEED=0)
	CUPEL_FUZZ_COUNT=$(or $(COUNT),20000) CUPEL_FUZZ_SEED=$(or $(SEED),0) $(RUN) pytest -q -s tests/messages/test_generated_histories.py
	CUPEL_FUZZ_CASES=$(or $(COUNT),20000) $(RUN) pytest -q -s tests/messages/test_messages_fuzz.py

kill-batch: $(VENV)/.stamp-dev ## Kill and resume batch jobs two hundred times at random moments
	CUPEL_KILLS=100 $(RUN) pytest -q -s tests/batch/test_kills.py

docs: $(VENV)/.stamp-docs ## Build the site into site/, strictly
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

pages: $(VENV)/.stamp-dev $(VENV)/.stamp-pages ## Try the page in the machine's Chromium (apt-get install chromium)
	$(RUN) pytest tests/page/browser

build: $(VENV)/.stamp-dev ## Build the wheel and the source distribution into dist/
	$(RUN) hatchling build

try-dist: ## Install the files of dist/ into empty environments of every supported Python that is found, and run the demo there
	scripts/try-dist $(foreach version,$(VERSIONS),$(shell scripts/find-python $(version) 2>/dev/null))

clean: ## Remove environments, caches and everything built
	rm -rf .venv .venvs dist site build htmlcov .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "creating $(VENV) with $(PYTHON)"
	@$(NEW_VENV)

$(VENV)/.stamp-demo: pyproject.toml | $(BIN)/python
	@$(INSTALL) --editable '.[cli,tokens]'
	@touch $@

$(VENV)/.stamp-%: pyproject.toml | $(BIN)/python
	@echo "installing cupel for development ($*) into $(VENV)"
	@$(INSTALL) --editable '.[$(EXTRAS)]' --group $*
	@touch $@
