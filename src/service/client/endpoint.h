// The endpoint of a controller: its addresses and token. The controller writes them to a file when
// it is ready.
//
// endpoint.json: {"rest": "http://127.0.0.1:8700", "agents": "127.0.0.1:8701",
//                 "token_file": "/path/token", "pid": 4711}
// With TLS "rest" is https://, and "ca_file" is the authority that verifies the controller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::service {

struct Endpoint {
  std::string rest;  // "http://HOST:PORT"
  // Of the controllers that stand by for this one, of which one may lead now (docs/standby.md).
  std::vector<std::string> others;
  std::string agents;      // "HOST:PORT", for the agents' gRPC streams
  std::string token_file;  // absolute
  std::string ca_file;     // what verifies the controller in TLS; empty: the system's authorities
  int64_t pid = 0;         // of the controller
  std::string token;       // the contents of token_file; never written to endpoint.json
  std::string file;        // from which this was read; empty when named by a URL
};

// The user's choice: `--controller URL[,URL...] --token-file FILE --ca-file FILE`. All may be
// empty.
struct EndpointChoice {
  std::string controller;
  std::string token_file;
  std::string ca_file;
};

// Returns the controller of `choice`, else of the file that $LONGHAUL_ENDPOINT names, else of
// ./runs/endpoint.json, with the token of `--token-file` if that is given. The authority of an
// https:// URL is `--ca-file`, else $LONGHAUL_CA_FILE, else ~/.config/longhaul/ca.crt or
// /etc/longhaul/ca.crt if there is one. A token is never sent over plain HTTP to another machine.
// An error message explains how to name one.
Result<Endpoint> FindEndpoint(const EndpointChoice& choice);

// Reads endpoint.json and the token file it names.
Result<Endpoint> ReadEndpoint(const std::string& path);
// Replaces endpoint.json atomically.
Status WriteEndpoint(const std::string& path, const Endpoint& endpoint);

// Returns the host of a URL, without brackets. Requires that the URL has a scheme.
std::string HostOf(const std::string& url);

// Returns the token in a file: its first line. Refuses a file that other users may read.
Result<std::string> ReadToken(const std::string& path);

}  // namespace longhaul::service
