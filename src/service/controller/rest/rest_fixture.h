// A controller's REST server and a client of it, for tests.
#pragma once

#include <httplib.h>

#include <memory>
#include <string>
#include <utility>

#include "service/controller/controller_fixture.h"

namespace longhaul::service {

class RestTest : public ControllerTest {
 protected:
  void SetUp() override {
    StartService();
    http_ = std::make_unique<httplib::Client>(service_->endpoint().rest);
    http_->set_bearer_token_auth(service_->endpoint().token);
  }

  // The status of a call and, where its body is JSON, that.
  std::pair<int, Json> Call(const std::string& method, const std::string& path,
                            const std::string& body = "") {
    const httplib::Headers headers = {{"Accept", "application/json"}};
    const auto result = method == "POST"     ? http_->Post(path, headers, body, "application/json")
                        : method == "DELETE" ? http_->Delete(path, headers)
                                             : http_->Get(path, headers);
    if (!result) return {0, Json()};
    return {result->status, Json::parse(result->body, nullptr, /*allow_exceptions=*/false)};
  }

  std::unique_ptr<httplib::Client> http_;
};

}  // namespace longhaul::service
