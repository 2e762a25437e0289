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

.PHONY: model
model: ## explore the protocol's model, larger than in the tests
	@scripts/model.sh

.PHONY: simulation
simulation: ## 10,000 seeds of the simulation
	$(GO) test -timeout 0 ./sim -run '^TestSimulation$$' -sim.seeds 10000

.PHONY: crashpoints
crashpoints: ## stop every operation at every step, and again within the recovery (about an hour and a half, 6 GB)
	GOGC=off GOMEMLIMIT=6GiB $(GO) test -timeout 0 ./internal/crashpoints -crash.all

.PHONY: differential
differential: ## 100,000 operations on SQLite and MariaDB beside the specification (about 6 minutes)
	$(GO) test -race -timeout 0 ./internal/storetest -run '^TestSQLDatabasesAgree$$' -differential.sets 5

.PHONY: queries
queries: ## let every SQL statement of every method fail, in every way (about 4 minutes)
	$(GO) test -race -timeout 0 ./internal/sqlstore -run '^TestNthQuery' -v -io.all

.PHONY: linearize
linearize: ## 200 histories of each kind of fault against real processes, in each durability (2 to 4 hours)
	$(GO) test -race -timeout 0 ./internal/linearize -run '^TestLinearizable$$' -v -linearize.kinds all -linearize.histories 200 -linearize.durability both

.PHONY: chaos
chaos: ## ten minutes of faults against real processes, in each durability
	$(GO) test -race -timeout 0 ./internal/chaos -run '^TestChaos$$' -v -chaos.duration 10m -chaos.nodes 3 -chaos.durability ledger
	$(GO) test -race -timeout 0 ./internal/chaos -run '^TestChaos$$' -v -chaos.duration 10m -chaos.nodes 3 -chaos.durability store

.PHONY: chaos-all
chaos-all: ## the whole schedule: every fault 20 times alone and every pair, in each durability (about 30 minutes each)
	$(GO) test -race -timeout 0 ./internal/chaos -run '^TestChaos$$' -v -chaos.duration -1s -chaos.nodes 3 -chaos.durability ledger
	$(GO) test -race -timeout 0 ./internal/chaos -run '^TestChaos$$' -v -chaos.duration -1s -chaos.nodes 3 -chaos.durability store

.PHONY: kills
kills: ## kill budgetd 100 times in a row under load
	$(GO) test -race -timeout 0 ./internal/chaos -run '^TestKills$$' -v -chaos.kills 100

.PHONY: mutants
mutants: ## switch off each safeguard in turn: some test must fail (about 10 minutes)
	$(GO) run ./internal/safeguard/mutants

.PHONY: lint
lint: ## gofmt and go vet, golangci-lint and shellcheck where installed
	@scripts/lint.sh

.PHONY: demo
demo: ## replay 6,000 web requests against the embedded server
	@scripts/demo.sh

.PHONY: demo-cluster
demo-cluster: ## the same on MariaDB, three Redis and two budgetd, all private
	@scripts/demo-cluster.sh

.PHONY: bench
bench: ## measure budgetd and the baselines side by side (20 minutes, on a quiet machine)
	@bench/run.sh

.PHONY: clean
clean: ## remove what build made
	rm -rf bin
