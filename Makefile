# Every target sets up .venv by itself when it is missing or when the requirements changed;
# with LOCKED=1 from locks/, each file by its SHA-256.
PYTHON ?= python3
NB ?=
NAME ?=
DEVICE ?= cpu
LOCKED ?=
BIN := .venv/bin
STAMP := .venv/.stamp
JUPYTER := .lab/.stamp
EXTRAS = $$($(BIN)/python -c 'import sys; print("dev,site" if sys.version_info >= (3, 11) else "dev")')
LOCK = $$($(BIN)/python -c 'import sys; print("locks/python-3.%d.txt" % min(sys.version_info[1], 11))')
SITE := $(BIN)/sphinx-build -q -W --keep-going -d .doctrees -c docs nbs _site

.DEFAULT_GOAL := help
.PHONY: help course test site pdf lab run bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

course: $(STAMP) ## Train a model that invents names, then build the site
	$(BIN)/former-nb train names --out runs/names --overwrite
	@$(MAKE) --no-print-directory site

test: $(STAMP) ## Everything that must hold: export, lint, every notebook, the site, pytest; DEVICE=cuda or mps
	$(BIN)/python tools/test.py --device $(DEVICE)

site: $(STAMP) ## Build the lessons into _site/
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	  $(SITE) && echo "The lessons are in _site/index.html: open it in a browser, no server needed."; \
	else echo "The site needs Python 3.11 or newer and was skipped."; fi

pdf: site ## Print the path into _site/former_nb.pdf, by Chromium
	$(BIN)/python tools/pdf.py

lab: $(JUPYTER) ## Open the notebooks in JupyterLab, which saves them as git has them
	cd nbs && ../.lab/bin/jupyter lab --ContentsManager.pre_save_hook=nbdev.clean.clean_jupyter

run: $(STAMP) ## Execute notebooks in place and clean them; NB=nbs/02_attention.ipynb for one
	$(BIN)/nbdev_export
	$(BIN)/python tools/run.py $(NB)
	$(BIN)/python tools/readme.py

bench: $(STAMP) ## Time our modules beside what you would use instead; NAME=generate for one workload
	$(BIN)/python -m benchmarks $(NAME)

clean: ## Remove what was built: the site, caches and both environments, not runs/
	rm -rf .venv .lab _site _docs _proc .doctrees jupyter_execute build dist *.egg-info .pytest_cache .hypothesis .ruff_cache

$(STAMP): settings.ini constraints.txt setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "former_nb needs Python 3.10 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up .venv: a few minutes the first time."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
ifeq ($(LOCKED),)
	@$(BIN)/python -m pip install -qq -U -c constraints.txt pip setuptools wheel
	@$(BIN)/python -m pip install -qq --no-build-isolation -c constraints.txt -e ".[$(EXTRAS)]"
else
	@$(BIN)/python -m pip install -qq --require-hashes --no-deps -r $(LOCK)
	@$(BIN)/python -m pip install -qq --no-build-isolation --no-deps -e .
endif
	@touch $@

# JupyterLab lives apart: in .venv it would slow down every import of jsonschema.
$(JUPYTER): $(STAMP)
	@echo "Setting up .lab: a minute the first time."
	@test -x .lab/bin/python || $(PYTHON) -m venv .lab
	@.lab/bin/python -m pip install -qq -U -c constraints.txt pip jupyterlab nbdev
	@JUPYTER_PATH="$(CURDIR)/.lab/share/jupyter" $(BIN)/python -m ipykernel install --prefix .lab --name python3 --display-name former_nb
	@touch $@
