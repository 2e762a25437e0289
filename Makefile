# budgetd: "make" lists what there is to make.

GO ?= go

.DEFAULT_GOAL := help

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/budgetd and bin/budgetctl
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/budgetd ./cmd/budgetctl

.PHONY: test
test: ## install missing test servers (Debian, root), vet, run every test with -race
	@scripts/test.sh

.PHONY: lint
lint: ## gofmt and go vet, golangci-lint and shellcheck where installed
	@scripts/lint.sh

.PHONY: demo
demo: ## replay 6,000 web requests against the embedded server
	@scripts/demo.sh

.PHONY: demo-cluster
demo-cluster: ## the same on MariaDB, three Redis and two budgetd, all private
	@scripts/demo-cluster.sh

.PHONY: clean
clean: ## remove what build made
	rm -rf bin
