# The production image: compiled code and production dependencies, without build or test tools.

FROM node:22.22.3-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Install scripts stay off: no package in this image needs one.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY workflows workflows
COPY activities activities
COPY src src
COPY docs docs
RUN npm run build
# Temporal ships native libraries for five platforms, 35 MB each. Keep only this platform's.
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
# Mount point for checkpoints of the compliance log. A new volume inherits its owner.
RUN install -d -o node -g node /var/lib/signet/checkpoints
# Without limits, heaps grow beyond their need. At saturation, these limits save a quarter of the memory and cost no CPU
# (docs/benchmarks.md measures processes with the same options).
ENV NODE_ENV=production SIGNET_ENV=production \
    NODE_OPTIONS="--enable-source-maps --max-old-space-size=256 --max-semi-space-size=16"
USER node
# Node receives signals directly. Run the image under an init (compose: `init: true`, docker run: `--init`).
ENTRYPOINT ["node", "dist/src/processes/main.js"]
CMD ["--help"]
