// Package containers holds the tests of docker-compose.yml and Dockerfile. They
// are a module of their own, because the parsers that Docker itself reads such
// files with come with much that the service does not need. They need no
// Docker: the image's binary is built by the Dockerfile's own command, and run
// in a root that is as empty.
package containers
