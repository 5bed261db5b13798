# The production image: compiled code and production dependencies, nothing that builds or tests.

FROM node:22.22.3-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Packages run no code of theirs while they are installed; none that is needed here has to.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json tsconfig.library.json ./
COPY workflows workflows
COPY activities activities
COPY src src
RUN npm run build
# Temporal's native library comes for five platforms, 35 MB each: this one's stays.
RUN npm prune --omit=dev --ignore-scripts --no-audit --no-fund \
    && find node_modules/@temporalio/core-bridge/releases -mindepth 1 -maxdepth 1 \
        ! -name "$(uname -m)-unknown-linux-gnu" -exec rm -r {} +

FROM node:22.22.3-bookworm-slim
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json ./
COPY src/bootstrap.mjs src/
RUN ln -s /app/src/bootstrap.mjs /usr/local/bin/signet
# Where checkpoints of the compliance log are mounted: a new volume takes over whose it is.
RUN install -d -o node -g node /var/lib/signet/checkpoints
# Heaps grow to what they may have rather than to what they need: measured, the limits save a quarter of the memory at
# saturation and cost no CPU (docs/benchmarks.md, which starts its processes with the same options).
ENV NODE_ENV=production SIGNET_ENV=production \
    NODE_OPTIONS="--enable-source-maps --max-old-space-size=256 --max-semi-space-size=16"
USER node
# Node gets the signals itself. It is meant to run under an init (compose: `init: true`, docker run: `--init`).
ENTRYPOINT ["node", "dist/src/processes/main.js"]
CMD ["--help"]
