# Verbs only; each is one command that CI and people call alike.
export CGO_ENABLED := 0
# For builds, tests and lint alike, so that each package is compiled once, whatever the checkout's directory is.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)
FLAGS := -ldflags "-s -w -X github.com/warren-vm/warren/api.Version=$(VERSION) -X github.com/warren-vm/warren/internal/start.Version=$(VERSION)"
LINTER := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
MUTATOR := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
MUTATED := egress generation audit folder engine
FILES := internal/embedded/files

.PHONY: build run test test-worlds test-safety test-kvm soak mutants lint bench image clean requirements docs site deps dist

build: ## bin/warren, with agent, monitor and reader embedded, and bin/mvmctl, its other name
	go build $(FLAGS) -o $(FILES)/warren-agent ./cmd/warren-agent
	go build $(FLAGS) -o $(FILES)/warren-monitor ./cmd/warren-monitor
	go build $(FLAGS) -o $(FILES)/warren-reader ./cmd/warren-reader
	go build $(FLAGS) -o bin/warren ./cmd/warren
	ln -sf warren bin/mvmctl

deps: ## the Debian packages that Warren needs on the host
	deploy/install-deps.sh

image: deps build ## the base image, with its warm generation
	bin/warren image build base

run: deps build ## everything from nothing to a first workspace
	scripts/run.sh

test: ## all that passes before a merge
	go run ./tools/runtests

test-worlds: build ## what is true of a fork, a suspend, a rollback, on real VMs: docs/correctness.md
	go test -tags=system -count=1 -v -timeout=9m -run='^TestWorlds' ./test/system/...

test-safety: build ## what becomes of the harm that an agent does, 52 cases on real VMs: docs/safety.md; UPDATE=-update writes it, CASE=1,38 runs some
	go test -tags=system -count=1 -v -timeout=20m ./test/safety/... -args $(UPDATE) $(if $(CASE),-case $(CASE))

test-kvm: ## capture and fork under real KVM; skipped, with the reason, where there is none
	go test -tags=kvm -count=1 -v -timeout=5m ./test/kvm/...

soak: deps build ## random kills for WARREN_SOAK minutes (20) each: in captures of one VM, in all commands on six; 1,000 creates; forks of 64; 200 captures of one VM; every recipe; each coding agent; agents of all frameworks; a browser on a screen; all of a Compose stack; damaged disks for as long, for each of three readers; all programs that use a secret; older SDKs of E2B; the package on bare Debian 12 and 13; a fuzzer of the API; all 52 cases of harm
	scripts/test-image.sh
	for i in desktop docker agents; do WARREN_DATA=$(CURDIR)/.work/data bin/warren image build $$i --if-missing || exit 1; done
	WARREN_SOAK=$${WARREN_SOAK:-20} go test -tags=system -count=1 -v -timeout=24h -run='^(TestSoak|TestChain|TestDiskFillsUp|TestKeepCrashes|TestKeepSlope|TestSecretPrograms|TestRecipe|TestDevcontainer|TestAgentKnown|TestAgentPages|TestDesktop|TestDocker|TestOCI|TestE2B|TestInstall|TestClientsFuzz)' ./test/system/...
	go test -tags=system -count=1 -v -timeout=30m -run='^TestSafety$$' ./test/safety/...
	scripts/bench.sh -only '^worlds.fork$$' -soak
	for f in ext4:FuzzOpen review:FuzzCompare review:FuzzServe oci:FuzzFlatten; do \
		go test -run='^$$' -fuzz="^$${f#*:}$$" -fuzztime=$${WARREN_SOAK:-20}m ./internal/$${f%:*} || exit 1; done

mutants: bin/gremlins ## which changes of a package no test of it notices: PKG="egress audit", SINCE=COMMIT for changed lines only; docs/correctness.md
	scripts/mutants.sh "$(or $(PKG),$(MUTATED))" "$(SINCE)"

bin/gremlins:
	GOBIN=$(CURDIR)/bin go install $(MUTATOR)

lint: bin/golangci-lint
	bin/golangci-lint run --allow-parallel-runners ./...
	go vet -tags=system,kvm ./...

bin/golangci-lint:
	GOBIN=$(CURDIR)/bin go install $(LINTER)

bench: deps build ## figures beside their floors and peers, in one run
	scripts/bench.sh

requirements: ## each requirement, the tests that cite it, how they ended at this commit
	@go run ./tools/requirements

docs: ## docs/cli.md from the commands, api/openapi.json from the routes, the types of clients from that
	go run ./cmd/warren docs > docs/cli.md
	go test ./internal/httpd -run='^TestOpenAPIFile$$' -update
	go run ./tools/clienttypes
	python3 clients/python/unasync.py

site: ## dist/site/: the pages as a web site with a search; fails where a link of a page is broken
	go run ./tools/site -version "$(VERSION)"

dist: ## dist/: .deb and tar.gz for amd64 and arm64, the same bytes for the same commit: docs/install.md; ARCH=amd64 makes one, IMAGE=base adds a bundle for hosts without a network
	go run ./tools/dist $(if $(ARCH),-arch $(ARCH)) $(if $(IMAGE),-image $(IMAGE))

clean:
	rm -rf bin dist .work $(FILES)/warren-agent $(FILES)/warren-monitor $(FILES)/warren-reader test/contract/node_modules test/system/testdata/programs/node_modules test/system/testdata/mcp/node_modules test/system/testdata/browser/node_modules test/system/testdata/node22/node_modules examples/frameworks/ai-sdk/node_modules clients/typescript/node_modules clients/typescript/dist
