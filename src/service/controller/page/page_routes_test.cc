#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>

#include "io/clock.h"
#include "service/controller/page/page_files.h"
#include "service/controller/rest/rest_fixture.h"

namespace longhaul::service {
namespace {

class PageTest : public RestTest {
 protected:
  void SetUp() override {
    RestTest::SetUp();
    browser_ = std::make_unique<httplib::Client>(service_->endpoint().rest);
    origin_ = service_->endpoint().rest;
  }

  std::string MakeLink(const std::string& body = "{}") {
    const auto [status, json] = Call("POST", "/v1/page/links", body);
    EXPECT_EQ(status, 201) << json;
    if (status != 201) return "";
    const std::string link = json["link"];
    EXPECT_TRUE(link.starts_with("/#t=")) << "a fragment is sent to no server: " << link;
    return link.substr(4);
  }

  // As the page does it. Returns the status and the cookie.
  std::pair<int, std::string> Open(const std::string& link, httplib::Headers headers = {}) {
    headers.emplace("Longhaul-Page-Link", link);
    headers.emplace("Origin", origin_);
    const auto result = browser_->Post("/v1/page/session", headers, "", "");
    if (!result) return {0, ""};
    const std::string set = result->get_header_value("Set-Cookie");
    return {result->status, set.substr(0, set.find(';'))};
  }

  int Get(const std::string& path, const std::string& cookie, httplib::Headers headers = {}) {
    headers.emplace("Cookie", cookie);
    const auto result = browser_->Get(path, headers);
    return result ? result->status : 0;
  }

  std::unique_ptr<httplib::Client> browser_;  // without a token
  std::string origin_;
};

TEST_F(PageTest, ServesItsFilesWithAPolicyToAnybody) {
  for (const PageFile& file : PageFiles()) {
    const auto answer = browser_->Get(file.path);
    ASSERT_TRUE(answer) << file.path;
    EXPECT_EQ(answer->status, 200) << file.path;
    EXPECT_EQ(answer->body, file.bytes) << file.path;
    EXPECT_EQ(answer->get_header_value("Content-Type"), file.media_type);
    EXPECT_EQ(answer->get_header_value("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer->get_header_value("Referrer-Policy"), "no-referrer");
    const std::string policy = answer->get_header_value("Content-Security-Policy");
    for (const char* part : {"default-src 'none'", "script-src 'self'", "connect-src 'self'",
                             "frame-ancestors 'none'", "require-trusted-types-for 'script'"}) {
      EXPECT_NE(policy.find(part), std::string::npos) << policy;
    }
    const std::string tag = answer->get_header_value("ETag");
    const auto again = browser_->Get(file.path, {{"If-None-Match", tag}});
    EXPECT_EQ(again->status, 304) << file.path;
    EXPECT_TRUE(again->body.empty());
    EXPECT_EQ(browser_->Get(file.path, {{"If-None-Match", "\"other\""}})->status, 200);
  }
}

TEST_F(PageTest, IsBuiltWithoutInlineScriptsAndWithoutAddressesOfOthers) {
  for (const PageFile& file : PageFiles()) {
    if (std::string_view(file.path) == "/licences.txt") continue;
    EXPECT_EQ(file.bytes.find("src=\"http"), std::string_view::npos) << file.path;
    EXPECT_EQ(file.bytes.find("url(http"), std::string_view::npos) << file.path;
    EXPECT_EQ(file.bytes.find("sourceMappingURL"), std::string_view::npos) << file.path;
  }
}

TEST_F(PageTest, OpensASessionThatMayRead) {
  const std::string id = Submit();
  const auto [status, cookie] = Open(MakeLink());
  ASSERT_EQ(status, 201);
  EXPECT_EQ(Get("/v1/view/run/" + id, cookie), 200);
  EXPECT_EQ(Get("/v1/view/run/" + id, ""), 401);
  EXPECT_EQ(Get("/v1/view/run/" + id, cookie + "x"), 401);
  EXPECT_EQ(Get("/v1/view/run/" + id, "longhaul=0; " + cookie), 200) << "another port's cookie";
}

TEST_F(PageTest, RefusesALinkTheSecondTimeAndAWrongOne) {
  const std::string link = MakeLink();
  EXPECT_EQ(Open(link).first, 201);
  EXPECT_EQ(Open(link).first, 401);
  EXPECT_EQ(Open("0123456789abcdef0123456789abcdef").first, 401);
  EXPECT_EQ(browser_->Post("/v1/page/session", "", "")->status, 400) << "no link at all";
}

TEST_F(PageTest, LimitsASessionToTheRoleOfItsLink) {
  const std::string id = Submit();
  const auto stop = [&](const std::string& cookie) {
    return browser_
        ->Post("/v1/jobs/" + id + "/stop", {{"Cookie", cookie}, {"Origin", origin_}}, "{}",
               "application/json")
        ->status;
  };
  EXPECT_EQ(stop(Open(MakeLink()).second), 403) << "a link without a role may view";
  EXPECT_EQ(stop(Open(MakeLink(R"({"role": "operate"})")).second), 200);
  const auto viewer = Call("POST", "/v1/tokens", R"({"name": "v", "role": "view"})").second;
  http_->set_bearer_token_auth(viewer["token"].get<std::string>());
  EXPECT_EQ(Call("POST", "/v1/page/links", R"({"role": "operate"})").first, 403);
  EXPECT_EQ(Call("POST", "/v1/page/links", R"({"role": "king"})").first, 400);
  EXPECT_EQ(Call("POST", "/v1/page/links", R"({"rule": "view"})").first, 400);
  EXPECT_EQ(Open(MakeLink()).first, 201);
}

// Otherwise a session could be prolonged without end.
TEST_F(PageTest, LetsNoSessionMakeALink) {
  const std::string cookie = Open(MakeLink(R"({"role": "administer"})")).second;
  const auto answer = browser_->Post("/v1/page/links", {{"Cookie", cookie}, {"Origin", origin_}},
                                     "{}", "application/json");
  EXPECT_EQ(answer->status, 403);
}

TEST_F(PageTest, EndsASessionWhenItsTokenIsRevoked) {
  const auto made = Call("POST", "/v1/tokens", R"({"name": "v", "role": "view"})").second;
  http_->set_bearer_token_auth(made["token"].get<std::string>());
  const std::string cookie = Open(MakeLink()).second;
  EXPECT_EQ(Get("/v1/view/runs", cookie), 200);
  http_->set_bearer_token_auth(service_->endpoint().token);
  ASSERT_EQ(Call("POST", "/v1/tokens/v/revoke").first, 200);
  EXPECT_EQ(Get("/v1/view/runs", cookie), 401);
}

TEST_F(PageTest, RefusesACookieInRequestsOfOtherPages) {
  const std::string id = Submit();
  const std::string cookie = Open(MakeLink(R"({"role": "operate"})")).second;
  for (const char* site : {"cross-site", "same-site"}) {
    for (const char* mode : {"navigate", "cors"}) {
      EXPECT_EQ(Get("/v1/jobs", cookie, {{"Sec-Fetch-Site", site}, {"Sec-Fetch-Mode", mode}}), 403)
          << site << " " << mode;
    }
  }
  EXPECT_EQ(Get("/v1/jobs", cookie, {{"Sec-Fetch-Site", "same-origin"}}), 200);
  EXPECT_EQ(Get("/v1/jobs", cookie, {{"Host", "evil.example"}}), 403);
  const auto stop = [&](httplib::Headers headers) {
    headers.emplace("Cookie", cookie);
    return browser_->Post("/v1/jobs/" + id + "/stop", headers, "{}", "application/json")->status;
  };
  EXPECT_EQ(stop({{"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(stop({{"Origin", "null"}}), 403);
  EXPECT_EQ(stop({}), 403) << "without Origin";
  EXPECT_EQ(Call("GET", "/v1/jobs/" + id).second["state"], "queued") << "nothing was stopped";
  EXPECT_EQ(stop({{"Origin", origin_}}), 200);
}

TEST_F(PageTest, OpensNoSessionForAForgedOriginOrHost) {
  const std::string link = MakeLink();
  for (const char* origin : {"http://evil.example", "null"}) {
    const auto answer = browser_->Post("/v1/page/session",
                                       {{"Longhaul-Page-Link", link}, {"Origin", origin}}, "", "");
    EXPECT_EQ(answer->status, 403) << origin;
  }
  EXPECT_EQ(Open(link, {{"Host", "evil.example"}}).first, 403);
  EXPECT_EQ(Open(link).first, 201) << "a refused request does not use the link up";
}

TEST_F(PageTest, NamesTheCallerAndTheRoleOfASession) {
  const auto session = [&](const std::string& cookie) {
    return nlohmann::json::parse(browser_->Get("/v1/page/session", {{"Cookie", cookie}})->body);
  };
  const auto made = Call("POST", "/v1/tokens", R"({"name": "alice", "role": "operate"})").second;
  http_->set_bearer_token_auth(made["token"].get<std::string>());
  const auto viewer = session(Open(MakeLink()).second);
  EXPECT_EQ(viewer["name"], "alice");
  EXPECT_EQ(viewer["role"], "view") << "the role of the link, not that of the token";
  EXPECT_EQ(session(Open(MakeLink(R"({"role": "operate"})")).second)["role"], "operate");
  EXPECT_EQ(browser_->Get("/v1/page/session")->status, 401);
}

// The acts that the page offers: each is refused to a session of a smaller role and to pages of
// other origins, and the audit log names who has done it.
TEST_F(PageTest, ActsByTheRoleOfTheSessionAndNamesTheActor) {
  const auto made = Call("POST", "/v1/tokens", R"({"name": "bob", "role": "administer"})").second;
  http_->set_bearer_token_auth(made["token"].get<std::string>());
  const std::string viewer = Open(MakeLink()).second;
  const std::string operates = Open(MakeLink(R"({"role": "operate"})")).second;
  const std::string administers = Open(MakeLink(R"({"role": "administer"})")).second;
  const auto post = [&](const std::string& path, const std::string& cookie,
                        const std::string& origin, const std::string& site) {
    const httplib::Headers headers = {
        {"Cookie", cookie}, {"Origin", origin}, {"Sec-Fetch-Site", site}};
    return browser_->Post(path, headers, "{}", "application/json")->status;
  };
  const std::string id = Submit();
  for (const std::string act : {"cordon", "uncordon", "drain"}) {
    const std::string path = "/v1/nodes/none/" + act;
    EXPECT_EQ(post(path, viewer, origin_, "same-origin"), 403) << act;
    EXPECT_EQ(post(path, operates, origin_, "same-origin"), 403) << act;
    EXPECT_EQ(post(path, administers, "http://evil.example", "same-origin"), 403) << act;
    EXPECT_EQ(post(path, administers, origin_, "same-site"), 403) << act;
    EXPECT_EQ(post(path, administers, origin_, "same-origin"), 404) << "may act: " << act;
  }
  const std::string stop = "/v1/jobs/" + id + "/stop";
  EXPECT_EQ(post(stop, viewer, origin_, "same-origin"), 403);
  EXPECT_EQ(post(stop, operates, origin_, "cross-site"), 403);
  EXPECT_EQ(post(stop, operates, origin_, "same-origin"), 200);
  std::ifstream file(directory_ + "/audit.log");
  nlohmann::json last;
  for (std::string line; std::getline(file, line);) last = nlohmann::json::parse(line);
  EXPECT_EQ(last["who"], "bob");
  EXPECT_EQ(last["role"], "operate");
  EXPECT_EQ(last["did"], "POST /v1/jobs/{id}/stop");
  EXPECT_EQ(last["object"], id);
}

}  // namespace
}  // namespace longhaul::service
