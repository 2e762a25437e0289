# budgetd: "make" lists what there is to make.

GO ?= go

.DEFAULT_GOAL := help

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nproofs, one by one:\n' && scripts/proof.sh --list

.PHONY: build
build: ## build bin/budgetd and bin/budgetctl
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/budgetd ./cmd/budgetctl

.PHONY: test
test: ## lint, and run every test, with short forms of the proofs (installs test servers on Debian)
	@scripts/test.sh

.PHONY: lint
lint: ## gofmt, go vet, golangci-lint, secrets, known vulnerabilities, and shellcheck where installed
	@scripts/lint.sh --vulnerabilities

.PHONY: proof
proof: ## the long forms of all proofs, one after the other, with a table at the end (90 minutes)
	@scripts/proof.sh

# The proofs one by one: scripts/proof.sh has the list and says what each does.
PROOFS = model mutants crashpoints properties wild fuzz linearize chaos kills processes drill bench-quick charts console vulns
.PHONY: $(PROOFS)
$(PROOFS):
	@scripts/proof.sh $@

.PHONY: demo
demo: ## replay 6,000 web requests against the embedded server
	@scripts/demo.sh

.PHONY: demo-cluster
demo-cluster: ## the same on MariaDB, three Redis and two budgetd, all private
	@scripts/demo-cluster.sh

.PHONY: bench
bench: ## measure budgetd and the baselines side by side (25 minutes, on a quiet machine)
	@bench/run.sh

.PHONY: dist
dist: ## make what the commit is published as: archives, packages, image, checksums
	rm -rf dist
	cd deploy/release && $(GO) run . -repository ../.. -out ../../dist

.PHONY: clean
clean: ## remove what build and dist made
	rm -rf bin dist
