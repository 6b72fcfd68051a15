# `make up` sets a sandbox up, `make test` runs every test; `make help` lists the rest.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES := v1.36.3
BIN        := $(CURDIR)/bin
NAME       ?= koup
BASES      ?= 3
ENGINE     ?= docker
IMAGE      ?= koupsandbox/fakebase:$(VERSION)
SANDBOX_IMAGE ?= koupsandbox/koupsandbox:$(VERSION)
CONTROLLER_IMAGE ?= koupsandbox/module-controller:$(VERSION)
PACKAGES   := ./controller/... ./fakebase/... ./sandbox/...
# The pages of docs have generated sections; what the Chinese ones say stands in docs/chinese.yaml.
GENERATED  := sandbox/api/v1alpha1/sandbox.schema.json sandbox/api/v1alpha1/scenario.schema.json docs/en docs/zh sandbox/board/web/dist sandbox/board/web/src/wire.ts sandbox/scenario/report/page/page.js

COMMIT     ?= $(shell git rev-parse HEAD 2>/dev/null)

# Without an id of the build the same sources give the same bytes.
LDFLAGS := -s -w -buildid=
# Tests: without what only a debugger reads, a quarter less to link.
TEST := go test -race -ldflags "-s -w"
OF := github.com/koupleless/koupsandbox/sandbox/internal/version
KOUPSANDBOX_LDFLAGS := $(LDFLAGS) -X $(OF).koupsandbox=$(VERSION) -X $(OF).commit=$(COMMIT) -X $(OF).kubernetes=$(KUBERNETES)
# The version that the embedded control plane reports, and the one in the user agents of its clients.
# "archive" is upstream's word for sources that come without their git tree, as a Go module does.
KUBE_LDFLAGS := $(LDFLAGS) $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
  -X $(package).gitVersion=$(KUBERNETES) -X $(package).gitMajor=1 -X $(package).gitMinor=36 -X $(package).gitTreeState=archive)
# Nobody writes debug information that LDFLAGS leave out: a tenth less to compile.
COMPILE := -trimpath -buildvcs=false -gcflags=all=-dwarf=false
# Tests and linters of the control plane must compile its thousand packages as build does, or they compile them all anew.
KUBE_GO := cd sandbox/controlplane && CGO_ENABLED=0 GOFLAGS="$(COMPILE)" go

##@ Use it
.PHONY: up down
up: build ## Set a sandbox up: make up BASES=10
	$(BIN)/koupsandbox up --name $(NAME) --bases $(BASES)

down: ## Take it down, with everything that it left
	$(BIN)/koupsandbox down --name $(NAME)

##@ Build
.PHONY: build cross release images image-sandbox image-controller image-fakebase node-image
build: $(addprefix $(BIN)/,koup-controlplane koupsandbox module-controller fakebase) ## Build the programs into bin/

# Go knows what has to be compiled anew.
.PHONY: $(addprefix $(BIN)/,koupsandbox module-controller fakebase)
$(BIN)/koupsandbox:
	CGO_ENABLED=0 go build $(COMPILE) -ldflags "$(KOUPSANDBOX_LDFLAGS)" -o $@ ./sandbox/cmd/koupsandbox
$(BIN)/module-controller:
	CGO_ENABLED=0 go build $(COMPILE) -ldflags "$(LDFLAGS) -X main.version=$(VERSION)" -o $@ ./controller/cmd/module-controller
$(BIN)/fakebase:
	CGO_ENABLED=0 go build $(COMPILE) -ldflags "$(LDFLAGS) -X main.version=$(VERSION)" -o $@ ./fakebase/cmd/fakebase

# Else make takes bin/fakebase for up to date once it is there.
bin/%: $(BIN)/% ;

# The upstream control plane: some minutes from an empty cache, then only when its versions change. The modules of the
# other programs are downloaded meanwhile.
$(BIN)/koup-controlplane: Makefile sandbox/controlplane/go.mod sandbox/controlplane/go.sum $(wildcard sandbox/controlplane/*.go)
	@echo "Compiling Kubernetes: some minutes the first time."
	@go list -deps ./sandbox/cmd/koupsandbox ./controller/cmd/module-controller ./fakebase/cmd/fakebase >/dev/null 2>&1 & \
	all=$$($(KUBE_GO) list -deps . | wc -l) && $(KUBE_GO) build -v -ldflags "$(KUBE_LDFLAGS)" -o $@ . 2>&1 | \
	  awk -v all="$$all" '/^[A-Za-z0-9._~\/-]+$$/ {if (++n % 100 == 0) {print "  " n " of at most " all " packages"; fflush()}; next} {print; fflush()}'
	touch $@

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
# GoReleaser packs the binaries in the order in which their builds end. One build at a time gives the same archives every time.
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

licenses: $(BIN)/go-licenses ## Check the licenses of all modules in the binaries
	PATH=$(BIN):$$PATH tools/release/licenses

# Of static programs and nothing else, from nothing but this repository. An engine that answers gets those of its own architecture.
ARCHES ?= amd64 arm64
IMAGES ?= dist/images
images: image-sandbox image-controller image-fakebase ## Write the container images to dist/images, and load them if docker answers

image-sandbox: PROGRAM := koupsandbox
image-sandbox: EXTRA := koup-controlplane module-controller fakebase
image-sandbox: SETTINGS := --env KOUPSANDBOX_FOREGROUND=true --env KOUPSANDBOX_API_LISTEN=0.0.0.0:8443
image-sandbox: ## Build an image with a whole sandbox: make image-sandbox SANDBOX_IMAGE=NAME
	$(call image,$(SANDBOX_IMAGE))

image-controller: PROGRAM := module-controller
image-controller: ## Build an image with the module controller alone: make image-controller CONTROLLER_IMAGE=NAME
	$(call image,$(CONTROLLER_IMAGE))

image-fakebase: PROGRAM := fakebase
image-fakebase: ## Build an image with the fakebase program alone: make image-fakebase IMAGE=NAME
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

node-image: ## Build the image of a kind node without a registry: make node-image ENGINE=podman
	go run ./sandbox/internal/nodeimage/cmd/node-image --engine $(ENGINE)

# The real base needs a JDK 17 and Maven; its jars are built anew when their sources change.
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
test-quick: build ## Test the packages that you have changed, and run one scenario
	@tools/test-quick

# gotestsum prints failures as they come, and at the end the skipped tests with their reasons.
SUM := $(BIN)/gotestsum --format pkgname-and-test-fails --hide-summary failed -- -race -ldflags "-s -w"

unit: $(BIN)/koup-controlplane $(BIN)/gotestsum ## Run the unit tests with the race detector
	@echo "== Unit tests with the race detector: usually 3 to 6 minutes; packages that have not changed are not tested again"
	$(SUM) -timeout 60m $(PACKAGES)
	$(KUBE_GO) test -ldflags "$(LDFLAGS)" ./...

# kind, fleets, real bases, browsers and the proof of the fuzzer have targets of their own. The scenarios take longest, so they
# start first.
E2E := ./e2e/scenarios $$(go list ./e2e/... | grep -vE '/e2e/(board|scenarios|fleet|fuzz|kind|realbase)$$')
e2e: build $(BIN)/gotestsum ## Run the tests that drive a running sandbox
	@echo "== Tests of running sandboxes: the scenarios, the commands, and the commands in the documents: usually 4 to 6 minutes"
	$(SUM) -count=1 -timeout 60m -p 3 $(E2E)

# Tests that need root, as PACKAGE:TESTS. Without root they are skipped. CI runs them with sudo, and a skipped test is a failure.
ROOT_TESTS := sandbox/internal/control:TestOnlyItsUserMayCall|TestAClientRefusesADaemonOfAnotherUser sandbox/internal/state:TestAFolderOfAnotherUserIsRefused|TestCheckOwner \
  sandbox:TestCommandsRefuseAFolderOfAnotherUser e2e/ci:TestOffline
.PHONY: test-root
test-root: build ## Run the tests that need root, with sudo if you are not root
	@sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo env PATH=$$PATH"; \
	test=$$(mktemp); trap 'rm -f $$test' EXIT; \
	for one in $(foreach t,$(ROOT_TESTS),'$(t)'); do \
	  $(TEST) -c -o $$test ./$${one%%:*}; \
	  out=$$(cd $${one%%:*} && $$sudo $$test -test.v -test.run "^($${one#*:})\$$") || { echo "$$out"; exit 1; }; \
	  echo "$$out"; \
	  ! grep -q -e '--- SKIP' -e 'no tests to run' <<<"$$out" || { echo "a test that needs root was skipped or is missing" >&2; exit 1; }; \
	done

.PHONY: e2e-long
e2e-long: build ## Let the broker, the API server, controllers and bases be away for minutes, in scaled time
	E2E_LONG=1 $(TEST) -count=1 -timeout 60m -run 'Long|TestNoPodIsEvicted' ./e2e/scenarios

# Other seeds each time: it prints the one that repeats the run. FUZZ has more flags.
FOR ?= 10m
FUZZ ?=
.PHONY: fuzz
fuzz: build ## Fuzz the controller: make fuzz FOR=1h
	$(BIN)/koupsandbox fuzz --for $(FOR) --corpus e2e/artifacts/fuzz $(FUZZ)

# Takes half an hour.
.PHONY: fuzz-proof
fuzz-proof: build ## Break the controller on purpose, in many ways, and let the fuzzer find each
	E2E_FUZZ=1 go test -count=1 -v -timeout 60m ./e2e/fuzz

.PHONY: record e2e-realbase
record: realbase ## Record the answers of a real base again, for the conformance test
	go test -count=1 -timeout 60m -parallel 5 -run TestRecord ./e2e/realbase -record

e2e-realbase: build realbase ## Let the controller drive real bases
	E2E_REALBASE=1 $(TEST) -count=1 -timeout 30m -parallel 4 ./e2e/realbase/

.PHONY: board-web e2e-board
board-web: ## Check the types of the board's page and run its tests (Node.js 20 or later, npm)
	cd sandbox/board/web && npm ci --no-audit --no-fund && npx tsc --noEmit && node test/run.mjs

e2e-board: board-web ## Look at the board's page in Chromium, and in Firefox if it is there, without a window
	$(TEST) -count=1 -timeout 30m ./e2e/board

# The scenarios that differ on kind: the controller is a Pod behind kube-proxy, and its restarts take longer. An empty
# list runs the whole catalogue. E2E_KIND=required turns a missing engine into a failure.
KIND_SCENARIOS ?= rolling-update,peer-deployment,baseline,controller-kill,two-controllers,way-to-broker,base-crash
.PHONY: e2e-kind
e2e-kind: build ## Test the provider kind, if a container engine answers
	@if docker ps >/dev/null 2>&1 || podman ps >/dev/null 2>&1; then \
	  E2E_KIND=1 $(TEST) -count=1 -timeout 40m ./e2e/kind; \
	  E2E_PROVIDER=kind E2E_SCENARIOS=$(KIND_SCENARIOS) $(TEST) -count=1 -timeout 40m -v -run TestCatalogue ./e2e/scenarios; \
	else \
	  echo "*** make e2e-kind IS SKIPPED: neither docker nor podman answers ***" >&2; [[ "$(E2E_KIND)" != required ]]; \
	fi

# E2E_FLEET_BASES says how many bases; the default is 60.
.PHONY: e2e-fleet
e2e-fleet: build ## Test bases in Pods of a kind cluster and a broker in a container, if docker answers and Mosquitto is installed
	@if docker ps >/dev/null 2>&1 && { command -v mosquitto || [ -x /usr/sbin/mosquitto ]; } >/dev/null; then \
	  E2E_FLEET=1 $(TEST) -count=1 -timeout 30m -v ./e2e/fleet; \
	else \
	  echo "*** make e2e-fleet IS SKIPPED: docker does not answer, or the program mosquitto is missing ***" >&2; [[ "$(E2E_FLEET)" != required ]]; \
	fi

# The scenarios that differ on an external broker. An empty list runs the whole catalogue. E2E_MOSQUITTO=required turns a
# missing broker into a failure.
MOSQUITTO_SCENARIOS ?= rolling-update,broker-pause,broker-restart,reconnect,way-to-broker,default-activation-over-mqtt,lost-command
.PHONY: e2e-mosquitto
e2e-mosquitto: build ## Test an external broker: Mosquitto, if it is installed
	@if command -v mosquitto || [ -x /usr/sbin/mosquitto ]; then \
	  E2E_BROKER=mosquitto E2E_SCENARIOS=$(MOSQUITTO_SCENARIOS) $(TEST) -count=1 -timeout 20m -run 'TestCatalogue|TestBroker' ./e2e/scenarios; \
	else \
	  echo "*** make e2e-mosquitto IS SKIPPED: the program mosquitto is missing (apt-get install mosquitto) ***" >&2; [[ "$(E2E_MOSQUITTO)" != required ]]; \
	fi

# The targets are found, not listed here. What one finds is written below testdata/fuzz of its package. A number of executions, not a
# time, as a busy machine does nothing in that, and as the end of the time is now and then told as a failure: golang/go#75804.
# By default Go spends a minute on making an input smaller that only covers something new.
FUZZTIME ?= 2000x
FUZZPARALLEL ?= 1
.PHONY: fuzz-decoders
fuzz-decoders: ## Give every decoder what nobody sends: make fuzz-decoders FUZZTIME=1000000x
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' controller fakebase sandbox | xargs -n 1 dirname | sort -u); do \
	  targets=$$(go test -list '^Fuzz' ./$$package | grep '^Fuzz'); \
	  for target in $$targets; do \
	    printf '%-50s %s\n' $$package $$target; \
	    said=$$(go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x -parallel $(FUZZPARALLEL) ./$$package 2>&1) || { echo "$$said" >&2; exit 1; }; \
	  done; \
	done

.PHONY: soak
soak: ## Let a hostile base say 50,000 things to a controller, with the race detector
	$(TEST) -count=1 -timeout 20m -v -run TestSoak ./controller -soak

# The checks that CI leaves out, one after the other. They take hours. FOR limits the fuzzer.
.PHONY: test-extended
test-extended: build ## Run the long and random tests that CI leaves out
	$(MAKE) e2e-mosquitto MOSQUITTO_SCENARIOS=
	$(MAKE) e2e-kind KIND_SCENARIOS=
	$(MAKE) e2e-long
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

lint: $(BIN)/golangci-lint ## Run the linters
	go vet ./...
	$(KUBE_GO) vet ./...
	$(BIN)/golangci-lint run ./...

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	cd tools && go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	touch $@

$(BIN)/gotestsum: tools/go.mod tools/go.sum
	cd tools && go build -o $@ gotest.tools/gotestsum
	touch $@

$(BIN)/vale: tools/vale/go.mod tools/vale/go.sum
	cd tools/vale && CGO_CFLAGS=-w go build -o $@ github.com/vale-cli/vale/v3/cmd/vale
	touch $@

$(RELEASE_TOOLS): tools/release/go.mod tools/release/go.sum
	cd tools/release && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $(BIN)/ $$(go list tool | grep '/$(@F)\(/v2\)\?$$')
	touch $@

generate: ## Write generated files anew (JSON schemas, sections of docs)
	CGO_ENABLED=0 go generate ./...

verify: generate ## Check that generated files and go.mod are up to date
	git diff --exit-code -- $(GENERATED)
	go mod tidy -diff

ci: lint build verify test ## Everything that must pass: what CI runs

##@ Help
.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*##/ {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
