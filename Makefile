# The tasks of this repository. `make` alone lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help deps build run test check miri soak faults bench bench-compare bench-instructions bench-stalls bench-console package package-test test-programs clean bench-simulation

# The test profile is quick to compile. Random runs that take hours, and what is measured, are worth optimising. The
# invariants of Allot's own crates stay, since they are those of allot-core, and so do their overflow checks. In the
# other crates, debug assertions would only be those of the standard library about unsafe code, which they do not have.
# The dependencies in which simulations spend their time are named one by one: the other settings would only make the
# rest take longer to build.
OPTIMISED := --config profile.test.opt-level=3 \
	$(foreach package,allotd allot-client allot-compaction allot-coordination allot-runtime allot-simulation,\
	--config profile.test.package.$(package).opt-level=3 \
	--config profile.test.package.$(package).codegen-units=1 \
	--config profile.test.package.$(package).debug-assertions=false) \
	$(foreach package,bytes futures-core futures-util itoa libmimalloc-sys mimalloc redis tokio xxhash-rust,\
	--config profile.test.package.$(package).opt-level=3 \
	--config profile.test.package.$(package).codegen-units=1 \
	--config profile.test.package.$(package).debug-assertions=false \
	--config profile.test.package.$(package).overflow-checks=false)

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

deps: ## Install missing packages: redis-server, clang, a C compiler, Python's redis and kazoo, ZooKeeper, Java, Chromium
	@scripts/deps.sh

# One call of cargo for each package: the tests build the module alone as well, and cargo would choose other features
# for shared dependencies if both were built at once, and so build them twice.
# The two profiles have folders of their own, so the two builds do not wait for each other.
build: deps ## Build the module, allotd and allot, as they are shipped
	cargo build --profile daemon -p allotd -p allot-cli & cargo build --release -p allot-module && wait $$!

run: deps ## Start a server and a conference system, load shows and numbers, use them, kill a unit: [PLAN=FILE] [LOAD=OPTIONS] [PORT=N]
	@PLAN='$(PLAN)' LOAD='$(LOAD)' PORT='$(PORT)' scripts/run.sh

# Tests are built in the development profile, which links twenty binaries in the time that the release profile
# links one; the module itself is always tested as it is shipped. The module, allotd and allot are built first, so that
# the first test does not wait for the compiler. The end of the module's build occupies one processor only.
test-programs: deps
	cargo build --release -p allot-module & cargo build --profile test --workspace --test rig --bin allotd --bin allot && wait $$!

# The random cases are the same in each run; a soak draws new ones.
test: test-programs ## Build and run all tests
	PROPTEST_RNG_SEED=1 cargo test --workspace --no-fail-fast --config "target.'cfg(all())'.runner = 'scripts/run-tests.sh'"

# The library of the module and the command line are both named `allot`: documented at once, they write the same files.
check: deps ## Check formatting, import circles, planted faults, lints, documentation (all warnings as errors) and the crate allot-client
	cargo fmt --all --check
	python3 scripts/check-imports.py
	python3 scripts/planted-faults.py --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --exclude allot-cli --no-deps --document-private-items
	RUSTDOCFLAGS='-D warnings' cargo doc -p allot-cli --no-deps --document-private-items
	cargo package -p allot-client --no-verify --allow-dirty --quiet

# The core has no unsafe code of its own. Miri sees whether it uses the unsafe code of other crates as they demand.
miri: ## Run tests of the structures that all families share under Miri; needs a nightly toolchain
	rustup component add miri rust-src --toolchain nightly
	cargo +nightly miri test -p allot-core --lib shared::

soak: deps ## Run the tests with many more random cases; takes long
	cargo build --release -p allot-module
	ALLOT_SOAK=1 ALLOT_MODEL_CASES=50000 cargo test --workspace --no-fail-fast $(OPTIMISED)

faults: deps ## Plant faults in a copy of the sources, and show that the simulations find them
	@scripts/planted-faults.py

bench: deps ## Measure: live servers beside PING, then the core
	cargo run --release -p allot-benches --bin allot-bench
	cargo bench -p allot-benches --bench core

# The sources of the other revision are in a working tree of their own.
define other-module
	@git worktree add --force --detach target/base $(BASE)
	cargo build --release -p allot-module --manifest-path target/base/Cargo.toml --target-dir target/base-build
	@git worktree remove --force target/base
	cargo build --release -p allot-module
endef
OTHER_MODULES := $(CURDIR)/target/base-build/release/liballot.so $(CURDIR)/target/release/liballot.so

bench-compare: deps ## Compare the processor time of requests with that of another revision of the module: BASE=REVISION
	$(other-module)
	cargo run --release -p allot-benches --bin allot-bench -- --compare $(OTHER_MODULES)

bench-instructions: ## As bench-compare, in instructions, which another load on the machine does not change: BASE=REVISION
	@scripts/deps.sh --valgrind
	$(other-module)
	scripts/bench-instructions.py $(OTHER_MODULES)

# The first build takes minutes: it builds all dependencies for optimisation at link time.
bench-simulation: ## Measure the processor time of a simulated hour of a large system
	cargo test --workspace --test simulation $(OPTIMISED) --config 'profile.test.lto="thin"' \
		-- --exact scenarios::simulated_hour --ignored --nocapture

bench-stalls: deps ## Measure how long another client waits for each large request: [GROUP=WORD]
	cargo build --release -p allot-module
	cargo run --release -p allot-benches --bin allot-stalls $(GROUP)

bench-console: ## Measure the console of `make run`, which runs in another terminal: [PORT=N]
	scripts/console-bench.py --redis $(or $(PORT),6380)

package: ## Build the Debian packages allot-redis-module, allotd and allot into target/packages
	@scripts/deps.sh --package
	@packaging/build.sh

package-test: package ## Use the packages in a clean root and the images in containers; needs root
	@scripts/deps.sh --package-test
	@packaging/test.sh
	@packaging/container-test.sh

clean: ## Remove build results, and the demonstration's folder
	cargo clean
	rm -rf .run
