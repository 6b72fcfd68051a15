# `make up` sets a sandbox up, `make test` runs every test; `make help` lists the rest.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES := v1.36.3
LINT       := v2.15.0
BIN        := $(CURDIR)/bin
NAME       ?= koup
BASES      ?= 3
PACKAGES   := ./controller/... ./fakebase/... ./sandbox/...

# What `kubectl version` shows of the embedded control plane.
STAMP = k8s.io/component-base/version
KUBE_LDFLAGS := -s -w -X $(STAMP).gitVersion=$(KUBERNETES) -X $(STAMP).gitMajor=1 -X $(STAMP).gitMinor=36 -X $(STAMP).gitTreeState=clean
LDFLAGS := -s -w

##@ Use it
.PHONY: up down
up: build ## Set a sandbox up: make up BASES=10
	$(BIN)/koupsandbox up --name $(NAME) --bases $(BASES)

down: ## Take it down, with everything that it left
	$(BIN)/koupsandbox down --name $(NAME)

##@ Build
.PHONY: build cross
build: $(BIN)/koup-controlplane ## Build the programs into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS) -X github.com/koupleless/koupsandbox/sandbox/internal/cli.Version=$(VERSION)" -o $(BIN)/koupsandbox ./sandbox/cmd/koupsandbox
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS) -X main.version=$(VERSION)" -o $(BIN)/module-controller ./controller/cmd/module-controller
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS) -X main.version=$(VERSION)" -o $(BIN)/fakebase ./fakebase/cmd/fakebase

# The upstream control plane: some minutes from an empty cache, then only when its versions change.
$(BIN)/koup-controlplane: sandbox/controlplane/go.mod sandbox/controlplane/go.sum $(wildcard sandbox/controlplane/*.go)
	cd sandbox/controlplane && CGO_ENABLED=0 go build -trimpath -ldflags "$(KUBE_LDFLAGS)" -o $@ .

cross: ## Check that everything compiles for linux and darwin, amd64 and arm64
	for os in linux darwin; do for arch in amd64 arm64; do \
	  echo "== $$os/$$arch"; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null ./controller/cmd/module-controller; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null ./fakebase/cmd/fakebase; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null ./sandbox/cmd/koupsandbox; \
	  (cd sandbox/controlplane && CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null .); \
	done; done

##@ Check
.PHONY: test unit e2e lint bench ci generate verify
test: unit e2e ## Run every test

unit: $(BIN)/koup-controlplane ## Run the unit tests with the race detector
	go test -race -timeout 15m $(PACKAGES)

e2e: build ## Run the tests that drive a running sandbox
	go test -race -count=1 -timeout 20m ./e2e/...

bench: build ## Measure speed and size; prints a table and JSON
	go run ./e2e/bench

lint: $(BIN)/golangci-lint ## Run the linters
	go vet ./...
	$(BIN)/golangci-lint run ./...

$(BIN)/golangci-lint: Makefile
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT)
	touch $@

generate: ## Write generated files anew (JSON schema)
	go generate ./...

verify: generate ## Check that generated files and go.mod are up to date
	go mod tidy -diff
	git diff --exit-code

ci: lint build test ## What CI runs

##@ Help
.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*##/ {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
