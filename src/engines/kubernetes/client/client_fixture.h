// A client and the double on one event loop, for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/client/watch_connection.h"
#include "engines/kubernetes/double/conversation.h"
#include "engines/kubernetes/double/http_double.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class ClientFixture : public testing::Test {
 protected:
  ClientFixture() : loop_(*io::EventLoop::Create()), server_(*HttpDouble::Start(*loop_)) {
    settings_.first_delay = std::chrono::milliseconds(1);
  }

  // Makes the client; without credentials it is anonymous.
  Client& Connect(std::unique_ptr<CredentialSource> credentials = nullptr) {
    Access access;
    access.http.server = server_->address();
    access.credentials = credentials ? std::move(credentials) : FixedCredentials({});
    client_ = *Client::Create(*loop_, std::move(access), settings_);
    with_ = std::make_unique<Conversation>(*loop_, *client_);
    return *client_;
  }

  // Creates a pod on the server, not through the client, and returns its uid.
  std::string MakePod(const std::string& name) {
    ApiRequest request;
    request.method = "POST";
    request.path = "/api/v1/namespaces/ns/pods";
    request.body = R"({"metadata":{"name":")" + name + R"("},"spec":{"containers":[]}})";
    const ApiResponse response = server_->api().Handle(request);
    EXPECT_EQ(response.status, 201) << response.body;
    return Json::parse(response.body)["metadata"]["uid"];
  }
  void Label(const std::string& name, const std::string& value) {
    ApiRequest request;
    request.method = "PATCH";
    request.path = "/api/v1/namespaces/ns/pods/" + name;
    request.content_type = "application/merge-patch+json";
    request.body = R"({"metadata":{"labels":{"a":")" + value + R"("}}})";
    EXPECT_EQ(server_->api().Handle(request).status, 200);
  }

  Reply Do(Result<Call> call) { return with_->Quietly(std::move(call)); }
  void Until(const std::function<bool()>& done) {
    with_->Until("the expected state", done);
    ASSERT_TRUE(with_->status().ok()) << with_->status();
  }

  const std::unique_ptr<io::EventLoop> loop_;
  const std::unique_ptr<HttpDouble> server_;
  ClientSettings settings_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Conversation> with_;
};

// The objects that a watch has reported: the version of each, by "namespace/name".
class View final : public WatchSink {
 public:
  void OnChange(const Change& change) override {
    const std::string key = change.meta.Key();
    EXPECT_EQ(versions.contains(key), change.kind != ChangeKind::kAdded) << key;
    if (change.kind == ChangeKind::kDeleted) {
      versions.erase(key);
    } else {
      versions[key] = change.meta.resource_version;
    }
    ++changes;
  }
  void OnSynced() override { ++synced; }
  void OnTrouble(const Status& status) override { troubles.push_back(status); }

  std::map<std::string, std::string> versions;
  std::vector<Status> troubles;
  int changes = 0;
  int synced = 0;
};

}  // namespace longhaul::engines::kubernetes
