// Where a controller listens and how to prove who we are: the file it writes once it is ready.
//
// endpoint.json: {"rest": "http://127.0.0.1:8700", "agents": "127.0.0.1:8701",
//                 "token_file": "/path/token", "pid": 4711}
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace longhaul::service {

struct Endpoint {
  std::string rest;        // "http://HOST:PORT"
  std::string agents;      // "HOST:PORT", for the agents' gRPC streams
  std::string token_file;  // absolute
  int64_t pid = 0;         // of the controller
  std::string token;       // what token_file holds; never written to endpoint.json
  std::string file;        // where this was read from; empty when it was named by its URL
};

// What the user said about it: `--controller URL --token-file FILE`. Both may be empty.
struct EndpointChoice {
  std::string controller;
  std::string token_file;
};

// The controller meant by `choice`, else by the file that $LONGHAUL_ENDPOINT names, else by
// ./runs/endpoint.json. The message of a failure says how to name one.
Result<Endpoint> FindEndpoint(const EndpointChoice& choice);

// Reads endpoint.json and the token file it names.
Result<Endpoint> ReadEndpoint(const std::string& path);
// Replaces endpoint.json as a whole.
Status WriteEndpoint(const std::string& path, const Endpoint& endpoint);

// The token in a file: its first line. Refuses a file that others may read.
Result<std::string> ReadToken(const std::string& path);

}  // namespace longhaul::service
