# `make up` creates a sandbox, `make test` runs the tests, `make help` lists all targets.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES := v1.37.2
BIN        := $(CURDIR)/bin
NAME       ?= koup
BASES      ?= 3
ENGINE     ?= docker
IMAGE      ?= koupsandbox/fakebase:$(VERSION)
SANDBOX_IMAGE ?= koupsandbox/koupsandbox:$(VERSION)
CONTROLLER_IMAGE ?= koupsandbox/module-controller:$(VERSION)
PACKAGES   := ./controller/... ./fakebase/... ./sandbox/...
# The pages in docs have generated sections. docs/chinese.yaml has their Chinese text.
GENERATED  := sandbox/api/v1alpha1/sandbox.schema.json sandbox/api/v1alpha1/scenario.schema.json docs/en docs/zh sandbox/board/web/dist sandbox/board/web/src/wire.ts sandbox/scenario/report/page/page.js

# A build from changed files ends in -dirty.
COMMIT     ?= $(shell git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null)

# Without a build ID, the same sources give the same binaries.
LDFLAGS := -s -w -buildid=
# Without debug information, linking a test takes a quarter less time.
TEST := go test -race -ldflags "-s -w"
OF := github.com/koupleless/koupsandbox/sandbox/internal/version
KOUPSANDBOX_LDFLAGS := $(LDFLAGS) -X $(OF).koupsandbox=$(VERSION) -X $(OF).commit=$(COMMIT) -X $(OF).kubernetes=$(KUBERNETES)
# The version that the embedded control plane reports, and the version in the user agents of its clients. Upstream uses
# "archive" for sources without a Git tree, such as a Go module.
KUBE_LDFLAGS := $(LDFLAGS) $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
  -X $(package).gitVersion=$(KUBERNETES) -X $(package).gitMajor=1 -X $(package).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES))) \
  -X $(package).gitTreeState=archive)
# LDFLAGS remove debug information, so the compiler does not write it: a tenth less time to compile.
COMPILE := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
# Tests and linters of the control plane use the flags of build. With other flags, Go compiles its thousand packages again.
KUBE_GO := cd sandbox/controlplane && CGO_ENABLED=0 GOFLAGS="$(COMPILE) $(KUBE_FLAGS)" go

##@ Use it
.PHONY: up down
up: build ## Create a sandbox: make up BASES=10
	$(BIN)/koupsandbox up --name $(NAME) --bases $(BASES)

down: ## Delete the sandbox and its files
	$(BIN)/koupsandbox down --name $(NAME)

##@ Build
.PHONY: build compile cross release images image-sandbox image-controller image-fakebase node-image
build: export MAKE_COMMAND := $(MAKE)
build: export COMPILE := $(COMPILE)
build: export BIN := $(BIN)
build: ## Build the binaries into bin/; KOUPSANDBOX_RELEASE=DIR|URL uses a release of this commit
	@tools/build

compile: $(addprefix $(BIN)/,koup-controlplane koupsandbox module-controller fakebase)

# Go decides what to compile again.
.PHONY: $(addprefix $(BIN)/,koupsandbox module-controller fakebase)
$(BIN)/koupsandbox:
	@echo "Compiling koupsandbox"
	@CGO_ENABLED=0 go build $(VERBOSE) $(COMPILE) -ldflags "$(KOUPSANDBOX_LDFLAGS)" -o $@ ./sandbox/cmd/koupsandbox
$(BIN)/module-controller:
	@echo "Compiling module-controller"
	@CGO_ENABLED=0 go build $(VERBOSE) $(COMPILE) -ldflags "$(LDFLAGS) -X main.version=$(VERSION)" -o $@ ./controller/cmd/module-controller
$(BIN)/fakebase:
	@echo "Compiling fakebase"
	@CGO_ENABLED=0 go build $(VERBOSE) $(COMPILE) -ldflags "$(LDFLAGS) -X main.version=$(VERSION)" -o $@ ./fakebase/cmd/fakebase

# Without this rule, make treats an existing bin/fakebase as up to date.
bin/%: $(BIN)/% ;

# The upstream control plane takes about 10 minutes to compile with an empty cache. Later it is compiled only when its versions
# change. tools/build sets VERBOSE and shows the progress.
$(BIN)/koup-controlplane: Makefile $(wildcard $(addprefix sandbox/controlplane/*.,mod sum go))
	@echo "Compiling Kubernetes"
	@$(KUBE_GO) build $(VERBOSE) -ldflags "$(KUBE_LDFLAGS)" -o $@ .
	@touch $@

cross: ## Check that everything compiles for linux and darwin, amd64 and arm64
	for os in linux darwin; do for arch in amd64 arm64; do \
	  echo "== $$os/$$arch"; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null ./controller/cmd/module-controller; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null ./fakebase/cmd/fakebase; \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null ./sandbox/cmd/koupsandbox; \
	  (export GOOS=$$os GOARCH=$$arch; $(KUBE_GO) build -o /dev/null .); \
	done; done

RELEASE ?= dist/release
BUILDS ?= dist/build
URL ?= https://github.com/koupleless/koupsandbox/releases/download/$(VERSION)
RELEASE_TOOLS := $(addprefix $(BIN)/,goreleaser go-licenses cyclonedx-gomod)
# GoReleaser packs the binaries in the order in which their builds end. With one build at a time, the archives are reproducible.
release: export PATH := $(BIN):$(PATH)
release: export RELEASE_VERSION := $(VERSION:v%=%)
release: export RELEASE_URL := $(URL)
release: export RELEASE_DATE = $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: export KOUPSANDBOX_LDFLAGS := $(KOUPSANDBOX_LDFLAGS)
release: export KUBE_LDFLAGS := $(KUBE_LDFLAGS)
release: export PROGRAM_LDFLAGS := $(LDFLAGS) -X main.version=$(VERSION)
release: $(RELEASE_TOOLS) ## Write the files of a release to dist/release: make release VERSION=v1.2.3
	@[[ "$(VERSION)" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$$ ]] || { echo 'VERSION is "$(VERSION)"; use a version such as v1.2.3' >&2; exit 1; }
	$(BIN)/goreleaser release --snapshot --clean --parallelism 1
	rm -rf $(RELEASE)
	mkdir -p $(RELEASE)
	cd dist && cp goreleaser/*.tar.gz goreleaser/*.cdx.json goreleaser/checksums.txt goreleaser/homebrew/Casks/*.rb goreleaser/krew/*.yaml files/install.sh $(abspath $(RELEASE))

.PHONY: release-check licenses
release-check: $(RELEASE_TOOLS) ## Build a release in two directories and compare the files
	tools/release/check

licenses: $(BIN)/go-licenses ## Check the licenses of all Go modules in the binaries
	PATH=$(BIN):$$PATH tools/release/licenses

# The images contain static binaries only and need no base image. If docker answers, the images of its architecture are loaded.
ARCHES ?= amd64 arm64
IMAGES ?= dist/images
images: image-sandbox image-controller image-fakebase ## Write the container images to dist/images, and load them if docker answers

image-sandbox: PROGRAM := koupsandbox
image-sandbox: EXTRA := koup-controlplane module-controller fakebase
image-sandbox: SETTINGS := --env KOUPSANDBOX_FOREGROUND=true --env KOUPSANDBOX_API_LISTEN=0.0.0.0:8443
image-sandbox: ## Build an image with all binaries of a sandbox: make image-sandbox SANDBOX_IMAGE=NAME
	$(call image,$(SANDBOX_IMAGE))

image-controller: PROGRAM := module-controller
image-controller: ## Build an image with the module controller: make image-controller CONTROLLER_IMAGE=NAME
	$(call image,$(CONTROLLER_IMAGE))

image-fakebase: PROGRAM := fakebase
image-fakebase: ## Build an image with fakebase: make image-fakebase IMAGE=NAME
	$(call image,$(IMAGE))

define image
	mkdir -p $(IMAGES)
	for arch in $(ARCHES); do \
	  bin=$(CURDIR)/$(BUILDS)/linux_$$arch; \
	  GOOS=linux GOARCH=$$arch $(MAKE) --no-print-directory BIN=$$bin $(addprefix $$bin/,$(PROGRAM) $(EXTRA)); \
	  CGO_ENABLED=0 go run -trimpath ./sandbox/internal/image/cmd/program-image --name $(1) --arch $$arch $(SETTINGS) \
	    --output $(IMAGES)/$(PROGRAM)_$$arch.tar $(addprefix $$bin/,$(PROGRAM) $(EXTRA)); \
	done
	@arch=$$(docker version --format '{{.Server.Arch}}' 2>/dev/null) || { echo "docker does not answer, so nothing was loaded into it"; exit 0; }; \
	  ! [ -f $(IMAGES)/$(PROGRAM)_$$arch.tar ] || docker load --input $(IMAGES)/$(PROGRAM)_$$arch.tar
endef

node-image: ## Build a kind node image without a registry: make node-image ENGINE=podman
	go run ./sandbox/internal/nodeimage/cmd/node-image --engine $(ENGINE)

# The real base needs a JDK 17 and Maven. Its jars are built again when their sources change.
REALBASE := e2e/realbase/target
$(REALBASE)/base.jar: e2e/realbase/build $(shell find e2e/realbase/java -name target -prune -o -type f ! -name 'deps.log*' -print)
	e2e/realbase/build

.PHONY: realbase
realbase: $(REALBASE)/base.jar ## Build a real Koupleless base and its module (JDK 17 and Maven)

##@ Check
.PHONY: test test-quick unit e2e lint bench ci generate verify
test: unit e2e ## Run every test that needs no container engine, JVM or browser

# BASE is the commit that the packages are compared with.
test-quick: export BASE := $(BASE)
test-quick: build ## Test the changed packages, and run one scenario
	@tools/test-quick

# gotestsum prints failures immediately, and skipped tests with their reasons at the end.
SUM := $(BIN)/gotestsum --format pkgname-and-test-fails --hide-summary failed -- -race -ldflags "-s -w"

unit: build $(BIN)/gotestsum ## Run the unit tests with the race detector
	@echo "== Unit tests with the race detector: usually 3 to 6 minutes; results of unchanged packages are cached"
	$(SUM) -timeout 60m $(PACKAGES)
	$(KUBE_GO) test -ldflags "$(LDFLAGS)" ./...

# kind, fleets, real bases, browsers and the mutation test of the fuzzer have separate targets. The scenarios measure requests,
# so no other package runs beside them. The other packages mostly wait.
E2E := $$(go list ./e2e/... | grep -vE '/e2e/(board|scenarios|fleet|fuzz|kind|realbase)$$')
e2e: build $(BIN)/gotestsum ## Run the end-to-end tests with embedded sandboxes
	@echo "== End-to-end tests with embedded sandboxes (scenarios, commands, documents): usually 6 to 9 minutes"
	$(SUM) -count=1 -timeout 60m ./e2e/scenarios
	$(SUM) -count=1 -timeout 60m -p $$(($$(nproc) + 1)) $(E2E)

# Tests that require root, as PACKAGE:TESTS. They are skipped without root. CI runs them with sudo; a skipped test is a failure.
ROOT_TESTS := sandbox/internal/control:TestOnlyItsUserMayCall|TestAClientRefusesADaemonOfAnotherUser sandbox/internal/state:TestAFolderOfAnotherUserIsRefused|TestCheckOwner \
  sandbox:TestCommandsRefuseAFolderOfAnotherUser e2e/ci:TestOffline
.PHONY: test-root
test-root: build ## Run the tests that require root, with sudo if you are not root
	@sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo env PATH=$$PATH"; \
	test=$$(mktemp); trap 'rm -f $$test' EXIT; \
	for one in $(foreach t,$(ROOT_TESTS),'$(t)'); do \
	  $(TEST) -c -o $$test ./$${one%%:*}; \
	  out=$$(cd $${one%%:*} && $$sudo $$test -test.v -test.run "^($${one#*:})\$$") || { echo "$$out"; exit 1; }; \
	  echo "$$out"; \
	  ! grep -q -e '--- SKIP' -e 'no tests to run' <<<"$$out" || { echo "a test that needs root was skipped or is missing" >&2; exit 1; }; \
	done

.PHONY: e2e-long
e2e-long: build ## Test outages of several minutes, in scaled time
	E2E_LONG=1 $(TEST) -count=1 -timeout 60m -run 'Long|TestNoPodIsEvicted' ./e2e/scenarios

# Each run uses a random seed and prints it, so that you can repeat the run. FUZZ passes more flags.
FOR ?= 10m
FUZZ ?=
.PHONY: fuzz
fuzz: build ## Fuzz the controller: make fuzz FOR=1h
	$(BIN)/koupsandbox fuzz --for $(FOR) --corpus e2e/artifacts/fuzz $(FUZZ)

# This takes half an hour.
.PHONY: fuzz-proof
fuzz-proof: build ## Check that the fuzzer finds each mutation of the controller
	E2E_FUZZ=1 go test -count=1 -v -timeout 60m ./e2e/fuzz

.PHONY: record e2e-realbase
record: realbase ## Record the responses of a real base again, for the conformance test
	go test -count=1 -timeout 60m -parallel 5 -run TestRecord ./e2e/realbase -record

e2e-realbase: build realbase ## Test the controller with real bases
	E2E_REALBASE=1 $(TEST) -count=1 -timeout 30m -parallel 4 ./e2e/realbase/

.PHONY: board-web e2e-board
board-web: ## Check the types of the web UI and run its tests (Node.js 20 or later, npm)
	cd sandbox/board/web && npm ci --no-audit --no-fund && npx tsc --noEmit && node test/run.mjs

e2e-board: board-web ## Test the web UI in headless Chromium, and in Firefox if it is installed
	$(TEST) -count=1 -timeout 30m ./e2e/board

# The scenarios that behave differently on kind, where the controller is a Pod behind kube-proxy and its restarts take longer.
# An empty list runs the whole catalogue. With E2E_KIND=required, a missing container engine is a failure.
KIND_SCENARIOS ?= rolling-update,peer-deployment,baseline,controller-kill,two-controllers,way-to-broker,base-crash
.PHONY: e2e-kind
e2e-kind: build ## Test the provider kind, if a container engine answers
	@if docker ps >/dev/null 2>&1 || podman ps >/dev/null 2>&1; then \
	  E2E_KIND=1 $(TEST) -count=1 -timeout 40m ./e2e/kind; \
	  E2E_PROVIDER=kind E2E_SCENARIOS=$(KIND_SCENARIOS) $(TEST) -count=1 -timeout 40m -v -run TestCatalogue ./e2e/scenarios; \
	else \
	  echo "*** make e2e-kind IS SKIPPED: neither docker nor podman answers ***" >&2; [[ "$(E2E_KIND)" != required ]]; \
	fi

# E2E_FLEET_BASES is the number of bases; the default is 60.
.PHONY: e2e-fleet
e2e-fleet: build ## Test bases in Pods of a kind cluster and a broker in a container, if docker answers and Mosquitto is installed
	@if docker ps >/dev/null 2>&1 && { command -v mosquitto || [ -x /usr/sbin/mosquitto ]; } >/dev/null; then \
	  E2E_FLEET=1 $(TEST) -count=1 -timeout 30m -v ./e2e/fleet; \
	else \
	  echo "*** make e2e-fleet IS SKIPPED: docker does not answer, or mosquitto is not installed ***" >&2; [[ "$(E2E_FLEET)" != required ]]; \
	fi

# The scenarios that behave differently with an external broker. An empty list runs the whole catalogue. With
# E2E_MOSQUITTO=required, a missing broker is a failure.
MOSQUITTO_SCENARIOS ?= rolling-update,broker-pause,broker-restart,reconnect,way-to-broker,default-activation-over-mqtt,lost-command
.PHONY: e2e-mosquitto
e2e-mosquitto: build ## Test Mosquitto as an external broker, if it is installed
	@if command -v mosquitto || [ -x /usr/sbin/mosquitto ]; then \
	  E2E_BROKER=mosquitto E2E_SCENARIOS=$(MOSQUITTO_SCENARIOS) $(TEST) -count=1 -timeout 20m -run 'TestCatalogue|TestBroker' ./e2e/scenarios; \
	else \
	  echo "*** make e2e-mosquitto IS SKIPPED: mosquitto is not installed (apt-get install mosquitto) ***" >&2; [[ "$(E2E_MOSQUITTO)" != required ]]; \
	fi

# This runs all fuzz tests of the repository. Failing inputs are written to testdata/fuzz of their package. FUZZTIME is a number of
# executions, because a time limit sometimes ends in a failure (golang/go#75804) and proves little on a busy machine.
# -fuzzminimizetime is lower than its default of a minute for each input that increases coverage.
FUZZTIME ?= 2000x
FUZZPARALLEL ?= 1
.PHONY: fuzz-decoders
fuzz-decoders: ## Run the Go fuzz tests of all decoders: make fuzz-decoders FUZZTIME=1000000x
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' controller fakebase sandbox | xargs -n 1 dirname | sort -u); do \
	  targets=$$(go test -list '^Fuzz' ./$$package | grep '^Fuzz'); \
	  for target in $$targets; do \
	    printf '%-50s %s\n' $$package $$target; \
	    said=$$(go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x -parallel $(FUZZPARALLEL) ./$$package 2>&1) || { echo "$$said" >&2; exit 1; }; \
	  done; \
	done

# The oldest Kubernetes version that the controller is tested with. oldest.mod contains its Go modules.
OLDEST := v1.31.13
OLDEST_SCENARIOS ?= rolling-update,peer-deployment,statefulset
.PHONY: e2e-oldest
e2e-oldest: ## Test the controller with the oldest Kubernetes version
	$(MAKE) compile BIN=$(BIN)/oldest KUBERNETES=$(OLDEST)+oldest KUBE_FLAGS="-modfile=oldest.mod -tags=oldest"
	E2E_BIN=$(BIN)/oldest E2E_SCENARIOS=$(OLDEST_SCENARIOS) $(TEST) -count=1 -timeout 20m -run TestCatalogue ./e2e/scenarios

.PHONY: soak
soak: ## Send 50,000 messages of a hostile base to a controller, with the race detector
	$(TEST) -count=1 -timeout 20m -v -run TestSoak ./controller -soak

# The tests that CI does not run, one after the other. They take hours. FOR limits the fuzzer.
.PHONY: test-extended
test-extended: build ## Run the long and random tests that CI does not run
	$(MAKE) e2e-mosquitto MOSQUITTO_SCENARIOS=
	$(MAKE) e2e-kind KIND_SCENARIOS=
	$(MAKE) e2e-fleet
	$(MAKE) e2e-long
	$(MAKE) e2e-oldest
	$(MAKE) fuzz-decoders
	$(MAKE) soak
	$(MAKE) bench BENCH='Idle/bases=10000$$'
	$(MAKE) fuzz
	$(MAKE) fuzz-proof
	$(MAKE) licenses
	$(MAKE) release-check

# BENCH selects benchmarks. Compare two outputs with: go run golang.org/x/perf/cmd/benchstat before.txt after.txt
BENCH ?= .
COUNT ?= 1
bench: build ## Measure speed and memory; print the Go benchmark format: make bench BENCH=Rollout COUNT=6
	go test -run '^$$' -bench '$(BENCH)' -benchtime 1x -count $(COUNT) -timeout 10h ./e2e/bench

lint: $(BIN)/golangci-lint $(BIN)/vale ## Run the linters of code and text
	go vet ./...
	$(KUBE_GO) vet ./...
	$(BIN)/golangci-lint run ./...
	git ls-files -z '*.go' '*.md' | xargs -0 $(BIN)/vale --output=line

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	cd tools && go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

$(BIN)/gotestsum: tools/go.mod tools/go.sum
	cd tools && go build -o $@ gotest.tools/gotestsum
	@touch $@

$(BIN)/vale: tools/vale/go.mod tools/vale/go.sum
	cd tools/vale && CGO_CFLAGS=-w go build -o $@ github.com/vale-cli/vale/v3/cmd/vale
	@touch $@

$(RELEASE_TOOLS): tools/release/go.mod tools/release/go.sum
	cd tools/release && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $(BIN)/ $$(go list tool | grep '/$(@F)\(/v2\)\?$$')
	@touch $@

generate: ## Update generated files (JSON schemas, sections of docs)
	CGO_ENABLED=0 go generate ./...

verify: generate ## Check that generated files and go.mod are up to date
	git diff --exit-code -- $(GENERATED)
	go mod tidy -diff

ci: lint build verify test ## Run the checks of CI that need no engine, JVM or browser

##@ Help
.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*##/ {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
