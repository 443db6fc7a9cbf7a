# A client for compose.yaml: client-examples/burst, once every few seconds.
#
#     docker build -t tradewake-burst -f docker/burst.Dockerfile .   # in the repository's root

FROM node:20-bookworm-slim
WORKDIR /app/client-examples/burst
COPY client-examples/burst/package.json client-examples/burst/package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
COPY client-examples/burst/burst.mjs ./
COPY proto /app/proto
COPY docker/bursts.sh /app/docker/
USER 1000:1000
ENTRYPOINT ["/app/docker/bursts.sh"]
CMD ["5"]
