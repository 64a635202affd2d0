# syntax=docker/dockerfile:1

FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
# The binary tells its revision if there is a repository to read it from. That
# of a git worktree is elsewhere.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    test -d .git || rm -f .git; \
    CGO_ENABLED=0 go build -ldflags="-s -w" -o /texttax ./cmd/texttax

FROM scratch
COPY --from=build /texttax /texttax
# Nobody: the program owns no file.
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["/texttax", "healthcheck"]
ENTRYPOINT ["/texttax"]
CMD ["serve", "--listen", ":8080", "--insecure-bind", "--log-format", "json"]
