# budgetd: "make" lists the targets.

GO ?= go

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nproofs, one by one:\n' && scripts/proof.sh --list

.PHONY: build
build: ## build bin/budgetd and bin/budgetctl
	@GO=$(GO) scripts/need-go.sh
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/budgetd ./cmd/budgetctl

.PHONY: test
test: ## run the linters and all tests, with short forms of the proofs (installs test servers on Debian)
	@scripts/test.sh

.PHONY: lint
lint: ## run gofmt, go vet, golangci-lint and shellcheck; search for secrets and known vulnerabilities
	@scripts/lint.sh --vulnerabilities

.PHONY: proof
proof: ## run the long forms of all proofs, with a table of results at the end (three hours)
	@scripts/proof.sh

# Single proofs. scripts/proof.sh has the list and says what each does.
PROOFS = model mutants crashpoints properties wild fuzz linearize chaos kills versions processes failover drill bench-quick charts compose publish demos console vulns
.PHONY: $(PROOFS)
$(PROOFS):
	@scripts/proof.sh $@

.PHONY: demo
demo: ## replay 6,000 web requests against the embedded server
	@scripts/demo.sh

.PHONY: demo-cluster
demo-cluster: ## run the same demo on two budgetd with MariaDB and three Redis, on private ports
	@scripts/demo-cluster.sh

.PHONY: bench
bench: ## measure budgetd and the baselines side by side (45 minutes, on a quiet machine)
	@bench/run.sh

.PHONY: dist
dist: ## build the release of this commit: archives, packages, image, checksums
	@GO=$(GO) scripts/need-go.sh
	rm -rf dist
	cd deploy/release && $(GO) run . -repository ../.. -out ../../dist

.PHONY: clean
clean: ## remove the output of build and dist
	rm -rf bin dist
