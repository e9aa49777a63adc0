// A whole controller on free ports in a temporary folder, with jobs made by the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "service/client/rest_client.h"
#include "service/controller/controller_service.h"

namespace longhaul::service {

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    std::string pattern = testing::TempDir() + "/controller_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ControllerTest() override {
    service_.reset();
    std::filesystem::remove_all(directory_);
  }

  void StartService() {
    ControllerServiceOptions options;
    options.state_directory = directory_;
    options.heartbeat_period = heartbeat_period_;
    options.external = external_;
    options.prepare = [this](const SubmissionRequest& request) -> Result<proto::JobsSubmitted> {
      if (request.job == "bad") return InvalidArgument("job:1: a bad job");
      proto::JobsSubmitted submitted;
      proto::Job& job = *submitted.add_jobs();
      job.set_name(request.name.empty() ? "job" : request.name);
      job.set_id(job.name() + "-" + std::to_string(++jobs_));
      job.set_nodes(1);
      job.set_processes_per_node(1);
      job.mutable_workload()->add_command("true");
      if (!secret_.empty()) {
        (*job.mutable_workload()->mutable_environment())["KEY"] = secret_;
        job.set_spec_json(R"({"environment":{"KEY":")" + secret_ + "\"}}");
      }
      job.mutable_snapshot()->set_keep(1);
      job.set_run_directory(directory_ + "/" + job.id());
      return submitted;
    };
    auto service = ControllerService::Start(options);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    client_ = std::make_unique<RestClient>(service_->endpoint());
  }

  std::string Submit(const std::string& name = "") {
    Json body = {{"job", "x"}};
    if (!name.empty()) body["name"] = name;
    const auto answer = client_->Post("/v1/jobs", body);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? (*answer)["id"].get<std::string>() : "";
  }

  std::string directory_;
  Duration heartbeat_period_ = std::chrono::milliseconds(200);
  int jobs_ = 0;
  std::shared_ptr<ExternalIdentity> external_;
  std::string secret_;  // in the environment of jobs; empty: they have none
  std::unique_ptr<ControllerService> service_;
  std::unique_ptr<RestClient> client_;
};

}  // namespace longhaul::service
