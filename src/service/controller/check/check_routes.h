// The routes of the REST API for node checks.
#pragma once

#include <string>

#include "service/controller/check/node_check_service.h"
#include "service/controller/rest/api_response.h"

namespace longhaul::service {

class CheckRoutes {
 public:
  // Null: the controller has no agents. Must outlive this.
  explicit CheckRoutes(NodeCheckService* checks) : checks_(checks) {}

  // Starts a check for `caller`, and returns its status, which has its number.
  ApiResponse Start(const std::string& body, const std::string& caller) const;
  ApiResponse Get(const std::string& number) const;

 private:
  NodeCheckService* const checks_;
};

}  // namespace longhaul::service
