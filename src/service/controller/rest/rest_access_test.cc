// Who may do what over REST: origins, tokens, roles, and what the audit log says of it.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/text.h"
#include "io/clock.h"
#include "service/controller/rest/rest_fixture.h"
#include "service/controller/rest/rest_server.h"

namespace longhaul::service {
namespace {

TEST_F(RestTest, NeedsTheTokenForAllButHealth) {
  for (const char* token : {"", "wrong"}) {
    http_->set_bearer_token_auth(token);
    EXPECT_EQ(Call("GET", "/v1/jobs").first, 401);
    EXPECT_EQ(Call("GET", "/metrics").first, 401);
    EXPECT_EQ(Call("POST", "/v1/jobs", R"({"job": "x"})").first, 401);
    EXPECT_EQ(Call("GET", "/v1/healthz").first, 200);
    EXPECT_EQ(Call("POST", "/v1/healthz", "{}").first, 401) << "a body needs the token";
  }
}

// With the token, too: a page may have learnt it, and must not be able to use it.
TEST_F(RestTest, RefusesWebPagesOfOtherOrigins) {
  const auto status = [&](const httplib::Headers& headers) {
    const auto got = http_->Get("/v1/healthz", headers);
    const auto posted = http_->Post("/v1/jobs", headers, R"({"job": "x"})", "application/json");
    EXPECT_TRUE(got && posted);
    if (!got || !posted) return 0;
    EXPECT_EQ(got->status == 403, posted->status == 403);
    if (posted->status == 403) {
      EXPECT_EQ(Json::parse(posted->body, nullptr, false)["error"]["code"], "permission_denied");
    }
    return posted->status;
  };
  EXPECT_EQ(status({{"Host", "evil.example:80"}}), 403);
  EXPECT_EQ(status({{"Origin", "https://evil.example"}}), 403);
  EXPECT_EQ(status({{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "no-cors"}}), 403);
  EXPECT_EQ(status({{"Host", "localhost:1"}, {"Origin", "http://localhost:1"}}), 201);
  EXPECT_EQ(Call("GET", "/v1/jobs").second["jobs"].size(), 1u) << "the refused ones came in";
}

// The table of the server, and each role at each route.
TEST_F(RestTest, LetsEachRoleDoWhatItMayAndNoMore) {
  const auto make = [&](const std::string& role) {
    const auto [status, made] =
        Call("POST", "/v1/tokens", R"({"name": ")" + role + R"(", "role": ")" + role + "\"}");
    EXPECT_EQ(status, 201) << made;
    return made["token"].get<std::string>();
  };
  const std::pair<Role, std::string> kTokens[] = {{Role::kView, make("view")},
                                                  {Role::kOperate, make("operate")},
                                                  {Role::kAdminister, make("administer")}};
  for (const std::string& route : RestApi::Routes()) {
    const size_t space = route.find(' ');
    const std::string method = route.substr(0, space);
    std::string path = route.substr(space + 1);
    const std::optional<Role> needed = RestApi::RoleFor(method, path);
    const size_t brace = path.find('{');
    if (brace != std::string::npos) path.replace(brace, path.find('}') - brace + 1, "none");
    for (const auto& [role, token] : kTokens) {
      http_->set_bearer_token_auth(token);
      const auto [status, json] = Call(method, path, method == "POST" ? "{}" : "");
      SCOPED_TRACE(route + " as " + std::string(NameOf(role)));
      EXPECT_EQ(status == 403, needed.has_value() && !Permits(role, *needed)) << status;
      EXPECT_NE(status, 401);
      if (status == 403) {
        const std::string message = json["error"]["message"];
        EXPECT_NE(message.find("needs the role " + std::string(NameOf(*needed))), std::string::npos)
            << message;
      }
    }
  }
}

TEST_F(RestTest, ChecksTheRoleOfEachChange) {
  const auto made = Call("POST", "/v1/tokens", R"({"name": "op", "role": "operate"})").second;
  const std::string id = Submit();
  http_->set_bearer_token_auth(made["token"].get<std::string>());
  const auto status = [&](const std::string& changes) {
    return Call("POST", "/v1/changes", R"({"changes": )" + changes + "}").first;
  };
  EXPECT_EQ(status(R"([{"expedite": ")" + id + "\"}]"), 200);
  EXPECT_EQ(status(R"([{"node": "node-1"}])"), 403);
  EXPECT_EQ(status(R"([{"expedite": ")" + id + R"("}, {"queue": "q", "limit": {"cpu": 1}}])"), 403);
  EXPECT_EQ(status(R"([{"link": "rack-1", "level": "rack"}])"), 403);
}

TEST_F(RestTest, RefusesATokenOnceItIsRevokedOrExpired) {
  const auto create = [&](const std::string& body) {
    return Call("POST", "/v1/tokens", body).second["token"].get<std::string>();
  };
  const std::string alice = create(R"({"name": "alice", "role": "view"})");
  // Expired when it is used: a nanosecond is over before the next request arrives.
  const std::string late = *service_->tokens().Create("late", Role::kView, Instant(), io::Now());
  httplib::Client other(service_->endpoint().rest);
  const auto status = [&](const std::string& token) {
    other.set_bearer_token_auth(token);
    const auto result = other.Get("/v1/jobs");
    return result ? result->status : 0;
  };
  EXPECT_EQ(status(alice), 200);
  EXPECT_EQ(status(late), 401);
  EXPECT_EQ(Call("GET", "/v1/tokens").second["tokens"].size(), 2u);
  EXPECT_EQ(Call("POST", "/v1/tokens", R"({"name": "alice", "role": "view"})").first, 409);
  EXPECT_EQ(Call("POST", "/v1/tokens/alice/revoke").first, 200);
  EXPECT_EQ(status(alice), 401);
  EXPECT_EQ(Call("POST", "/v1/tokens/alice/revoke").first, 404);
  const std::string listed = Call("GET", "/v1/tokens").second.dump();
  EXPECT_EQ(listed.find("sha256"), std::string::npos) << "hashes stay in the file: " << listed;
}

TEST_F(RestTest, LogsWhoDidWhatAndWhatWasRefused) {
  secret_ = "s3cret-value";
  const auto made = Call("POST", "/v1/tokens", R"({"name": "alice", "role": "operate"})").second;
  const std::string token = made["token"];
  http_->set_bearer_token_auth(token);
  ASSERT_EQ(Call("POST", "/v1/jobs", R"({"job": "x", "name": "mine"})").first, 201);
  ASSERT_EQ(Call("GET", "/v1/jobs").first, 200);
  ASSERT_EQ(Call("GET", "/v1/jobs/mine?environment=true").first, 200);
  ASSERT_EQ(Call("POST", "/v1/nodes/node-1/drain").first, 403);
  http_->set_bearer_token_auth("wrong-secret");
  ASSERT_EQ(Call("POST", "/v1/jobs/mine/stop").first, 401);
  std::vector<Json> lines;
  std::ifstream file(directory_ + "/audit.log");
  for (std::string line; std::getline(file, line);) {
    for (const std::string& secret : {token, secret_, std::string("wrong-secret")}) {
      EXPECT_EQ(line.find(secret), std::string::npos) << line;
    }
    lines.push_back(Json::parse(line));
    EXPECT_EQ(lines.back()["from"], "127.0.0.1");
    lines.back().erase("from");
    lines.back().erase("at");
  }
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].dump(), R"({"who":"local","role":"administer","did":"POST /v1/tokens",)"
                             R"("object":"alice operate","status":201})");
  EXPECT_EQ(lines[1].dump(), R"({"who":"alice","role":"operate","did":"POST /v1/jobs",)"
                             R"("object":"mine-1","status":201})");
  EXPECT_EQ(lines[2].dump(), R"({"who":"alice","role":"operate",)"
                             R"("did":"GET /v1/jobs/{id} with environment","object":"mine",)"
                             R"("status":200})");
  EXPECT_EQ(lines[3]["did"], "POST /v1/nodes/{name}/drain");
  EXPECT_EQ(lines[3]["who"], "alice");
  EXPECT_EQ(lines[3]["status"], 403);
  EXPECT_FALSE(lines[4].contains("who"));
  EXPECT_EQ(lines[4]["status"], 401);
}

TEST_F(RestTest, LogsRequestsThatItDoesNotRead) {
  ASSERT_EQ(Call("POST", "/v1/jobs", std::string(RestServer::kLargestBody + 1, ' ')).first, 413);
  ASSERT_EQ(http_->Get("/v1/jobs", {{"Host", "evil.example"}})->status, 403);
  ASSERT_EQ(http_->Post("/v1/jobs", "a=b", "application/x-www-form-urlencoded")->status, 415);
  std::ifstream file(directory_ + "/audit.log");
  std::vector<int> statuses;
  for (std::string line; std::getline(file, line);) statuses.push_back(Json::parse(line)["status"]);
  EXPECT_EQ(statuses, (std::vector<int>{413, 403, 415}));
}

TEST_F(RestTest, ShowsTheValuesOfAnEnvironmentToNoViewer) {
  secret_ = "s3cret-value";
  Submit();
  const auto made = Call("POST", "/v1/tokens", R"({"name": "v", "role": "view"})").second;
  http_->set_bearer_token_auth(made["token"].get<std::string>());
  EXPECT_EQ(http_->Get("/v1/jobs/job-1")->status, 200);
  for (const char* path : {"/v1/jobs?environment=true", "/v1/jobs/job-1?environment=true"}) {
    const auto answer = http_->Get(path);
    EXPECT_EQ(answer->status, 403);
    EXPECT_EQ(answer->body.find(secret_), std::string::npos) << answer->body;
  }
}

TEST_F(RestTest, TakesTheSchemeOfTheTokenInAnyCase) {
  const std::string& token = service_->endpoint().token;
  httplib::Client plain(service_->endpoint().rest);
  const auto status = [&](const std::string& value) {
    const auto result = plain.Get("/v1/jobs", {{"Authorization", value}});
    return result ? result->status : 0;
  };
  EXPECT_EQ(status("bearer " + token), 200);
  EXPECT_EQ(status("BEARER " + token), 200);
  EXPECT_EQ(status("Basic " + token), 401);
  EXPECT_EQ(status("bearer " + token + "x"), 401);
  EXPECT_EQ(status("bearer"), 401);
}

}  // namespace
}  // namespace longhaul::service
