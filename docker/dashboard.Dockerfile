# The live page for compose.yaml: client-examples/dashboard.
#
#     docker build -t tradewake-dashboard -f docker/dashboard.Dockerfile .   # in the repository's root

FROM node:20-bookworm-slim
WORKDIR /app/client-examples/dashboard
COPY client-examples/dashboard/package.json client-examples/dashboard/package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
COPY client-examples/dashboard/dashboard.mjs client-examples/dashboard/upstream.mjs ./
COPY client-examples/dashboard/page page
COPY proto /app/proto
USER 1000:1000
EXPOSE 8090
ENTRYPOINT ["node", "dashboard.mjs"]
CMD ["--listen", "0.0.0.0:8090"]
