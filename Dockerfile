# The production image: compiled code and production dependencies, without build or test tools. For two platforms:
#   docker buildx build --platform linux/amd64,linux/arm64 .

# Only Temporal's native library differs between platforms. So everything is built once, on the builder's own platform.
FROM --platform=$BUILDPLATFORM node:24.21.0-bookworm-slim AS build
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
RUN npm prune --omit=dev --ignore-scripts --no-audit --no-fund
# The last stage runs nothing, because it may be of another platform. So what it needs besides /app is prepared here.
RUN mkdir -p /image/bin /image/state/checkpoints /image/state/home \
    && ln -s ../../../app/src/bootstrap.mjs /image/bin/signet
ARG TARGETARCH
# A clone may be readable by its owner alone.
RUN node src/processes/image.mjs . "$TARGETARCH" && chmod -R a+rX dist src package.json

FROM node:24.21.0-bookworm-slim
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/package.json ./
COPY --from=build /app/src/bootstrap.mjs src/
COPY --from=build /image/bin/ /usr/local/bin/
# Mount points: checkpoints of the compliance log, and data of a try-out (`serve`). A new volume inherits its owner.
COPY --from=build --chown=node:node /image/state/ /var/lib/signet/
# Without limits, heaps grow beyond their need. At saturation, these limits save a quarter of the memory and cost no CPU
# (docs/benchmarks.md measures processes with the same options). Each arena of malloc keeps what its threads have freed.
ENV NODE_ENV=production SIGNET_ENV=production SIGNET_HOME=/var/lib/signet/home MALLOC_ARENA_MAX=2 \
    NODE_OPTIONS="--enable-source-maps --max-old-space-size=256 --max-semi-space-size=8"
USER node
# Node receives signals directly. Run the image under an init (compose: `init: true`, docker run: `--init`).
ENTRYPOINT ["node", "dist/src/processes/main.js"]
CMD ["--help"]
