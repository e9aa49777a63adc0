// The routes of the REST API for plans.
#pragma once

#include <string>

#include "service/controller/plan/plan_service.h"
#include "service/controller/rest/api_response.h"

namespace longhaul::service {

class PlanRoutes {
 public:
  // Must outlive this.
  explicit PlanRoutes(PlanService& plans) : plans_(plans) {}

  ApiResponse Planner() const;  // what it knows: the shipped models and accelerators
  ApiResponse Start(const std::string& body) const;
  ApiResponse Get(const std::string& number) const;
  ApiResponse Cancel(const std::string& number, const std::string& body) const;

 private:
  PlanService& plans_;
};

}  // namespace longhaul::service
