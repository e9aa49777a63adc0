// A request to the double of the API server, taken apart.
#pragma once

#include <map>
#include <string>

namespace longhaul::engines::kubernetes {

struct ApiRequest {
  std::string method;
  std::string path;
  std::map<std::string, std::string> query;
  std::string content_type;
  std::string body;
};

// The request with this target: a path and a query, escaped as in HTTP.
ApiRequest RequestFor(std::string method, const std::string& target, std::string body);

}  // namespace longhaul::engines::kubernetes
