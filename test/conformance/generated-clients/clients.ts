/** The generators of clients, with the commands that make, compile and call each. */
import type { GeneratedClient } from "#test/support/generated-clients.ts";

const TYPESCRIPT = ["typescript@5.9.3", "@types/node@22.20.5"];
const NPM = "npm view typescript version";
const OPENAPI_GENERATOR = ["openapi-generator-cli==7.26.0"];
const GENERATOR_NEEDS = ["java -version", "python3 -m pip index versions openapi-generator-cli"];
/** Compiles for Node.js, with the libraries checked. */
const TSC = "tsc --strict --types node --target es2023 --lib es2023,dom,dom.iterable";
const NODENEXT = "--module nodenext --rewriteRelativeImportExtensions";
const ES_MODULES = { "package.json": '{ "type": "module" }' };
const GO_MODULE = { "go.mod": "module generated\n\ngo 1.24\n" };

/** In the order of docs/generated-clients.md. */
export const CLIENTS: readonly GeneratedClient[] = [
  {
    name: "openapi-typescript",
    needs: [NPM],
    npm: ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", ...TYPESCRIPT],
    generate: "npx openapi-typescript openapi.json -o signet.d.ts",
    files: ES_MODULES,
    program: ["openapi-typescript.ts.txt", "call.ts"],
    compile: [`${TSC} ${NODENEXT} call.ts signet.d.ts operators.d.ts`],
    call: "node call.js",
  },
  {
    name: "hey-api",
    needs: [NPM],
    npm: ["@hey-api/openapi-ts@0.99.0", ...TYPESCRIPT],
    generate: "npx openapi-ts -i openapi.json -o signet -c @hey-api/client-fetch",
    program: ["hey-api.ts.txt", "call.ts"],
    compile: [`${TSC} --module commonjs --outDir js call.ts`],
    call: "node js/call.js",
  },
  {
    name: "oapi-codegen",
    needs: ["go list -m github.com/oapi-codegen/oapi-codegen/v2@v2.8.2"],
    generate:
      "mkdir signet && go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -generate types,client -package signet -o signet/signet.gen.go openapi.json",
    files: GO_MODULE,
    program: ["oapi-codegen.go", "main.go"],
    compile: [
      "go get github.com/oapi-codegen/runtime@v1.8.0",
      "go mod tidy",
      "go vet ./...",
      "go build -o call .",
    ],
    call: "./call",
  },
  {
    name: "openapi-python-client",
    needs: ["python3 -m pip index versions openapi-python-client"],
    pip: ["openapi-python-client==0.29.1"],
    generate: "openapi-python-client generate --path openapi.json --output-path signet --meta none",
    program: ["openapi-python-client.py", "call.py"],
    compile: [],
    call: "python call.py",
  },
  {
    name: "OpenAPI Generator for Go",
    needs: [...GENERATOR_NEEDS, "go list -m gopkg.in/validator.v2@latest"],
    pip: OPENAPI_GENERATOR,
    generate:
      "openapi-generator-cli generate -i openapi.json -g go -o signet --package-name signet --additional-properties=withGoMod=false,disallowAdditionalPropertiesIfNotPresent=false",
    files: GO_MODULE,
    program: ["openapi-generator.go", "main.go"],
    // Its tests import a module that does not exist.
    compile: ["rm -r signet/test operators/test", "go mod tidy", "go vet ./...", "go build -o call ."],
    call: "./call",
  },
  {
    name: "OpenAPI Generator for Java",
    needs: [...GENERATOR_NEEDS, "mvn --version"],
    pip: OPENAPI_GENERATOR,
    generate:
      "openapi-generator-cli generate -i openapi.json -g java -o signet --invoker-package signet --api-package signet.api --model-package signet.model --additional-properties=disallowAdditionalPropertiesIfNotPresent=false",
    program: ["Call.java", "Call.java"],
    compile: [
      "mvn --quiet --batch-mode -f signet/pom.xml dependency:copy-dependencies -DincludeScope=compile -DoutputDirectory=../libraries",
      "javac -nowarn -d classes -cp 'libraries/*' $(find signet/src/main operators/src/main -name '*.java') Call.java",
    ],
    call: "java -cp 'classes:libraries/*' Call",
  },
  {
    name: "OpenAPI Generator for Python",
    needs: [...GENERATOR_NEEDS, "jq --version"],
    pip: OPENAPI_GENERATOR,
    generate:
      "jq 'del(.webhooks)' openapi.json > signet.json && openapi-generator-cli generate -i signet.json -g python -o signet --package-name signet",
    program: ["openapi-generator.py", "call.py"],
    compile: [
      "python3 -m venv venv",
      "venv/bin/python -m pip install --quiet -r signet/requirements.txt",
      "venv/bin/python -m compileall -q signet/signet operators/operators",
    ],
    call: "PYTHONPATH=signet:operators venv/bin/python call.py",
  },
  {
    name: "OpenAPI Generator for Rust",
    needs: [...GENERATOR_NEEDS, "cargo --version"],
    pip: OPENAPI_GENERATOR,
    generate: "openapi-generator-cli generate -i openapi.json -g rust -o signet --package-name signet",
    files: {
      "Cargo.toml": `[package]
name = "call"
version = "0.0.0"
edition = "2021"

[[bin]]
name = "call"
path = "call.rs"

[dependencies]
signet = { path = "signet", default-features = false }
operators = { path = "operators", default-features = false }
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt"] }
`,
    },
    program: ["openapi-generator.rs", "call.rs"],
    compile: [
      "CARGO_PROFILE_DEV_DEBUG=0 cargo build --quiet",
      'cp "$CARGO_TARGET_DIR/debug/call" call',
      "cargo clean --quiet -p call -p signet -p operators",
    ],
    call: "./call",
  },
  {
    name: "OpenAPI Generator for TypeScript",
    needs: [...GENERATOR_NEEDS, NPM],
    npm: TYPESCRIPT,
    pip: OPENAPI_GENERATOR,
    generate: "openapi-generator-cli generate -i openapi.json -g typescript-fetch -o signet",
    program: ["openapi-generator.ts.txt", "call.ts"],
    compile: [`${TSC} --module commonjs --outDir js call.ts`],
    call: "node js/call.js",
  },
];
