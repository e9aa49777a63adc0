#include "service/controller/page/page_access.h"

#include <gtest/gtest.h>

#include "service/controller/page/page_cookie.h"

namespace longhaul::service {
namespace {

const Instant kStart = Instant() + std::chrono::hours(1);

TEST(PageAccess, OpensASessionOnceForALink) {
  PageAccess access;
  const std::string link = *access.MakeLink({"bearer", Role::kOperate}, kStart);
  EXPECT_EQ(link.size(), 32u) << "128 bits in hex";
  const auto session = access.OpenSession(link, kStart);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto grant = access.Find(*session, kStart);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->bearer, "bearer");
  EXPECT_EQ(grant->role, Role::kOperate);
  EXPECT_EQ(access.OpenSession(link, kStart).status().code(), Code::kUnauthenticated);
  EXPECT_FALSE(access.Find(link, kStart).has_value()) << "a link is no session";
}

TEST(PageAccess, RefusesALinkThatIsUnknownOrOlderThanAMinute) {
  PageAccess access;
  const std::string link = *access.MakeLink({"bearer", Role::kView}, kStart);
  EXPECT_FALSE(access.OpenSession("", kStart).ok());
  EXPECT_FALSE(access.OpenSession(std::string(32, '0'), kStart).ok());
  EXPECT_FALSE(access.OpenSession(link, kStart + PageAccess::kLinkTime).ok());
}

TEST(PageAccess, EndsASessionAfterItsTime) {
  PageAccess access;
  const std::string session =
      *access.OpenSession(*access.MakeLink({"bearer", Role::kView}, kStart), kStart);
  const Instant end = kStart + PageAccess::kSessionTime;
  EXPECT_TRUE(access.Find(session, end - std::chrono::nanoseconds(1)).has_value());
  EXPECT_FALSE(access.Find(session, end).has_value());
}

TEST(PageAccess, DropsTheOldestLinkAndSessionForANewOne) {
  PageAccess access;
  const std::string first_link = *access.MakeLink({"bearer", Role::kView}, kStart);
  for (size_t i = 0; i < PageAccess::kMostLinks; ++i) {
    (void)!access.MakeLink({"bearer", Role::kView}, kStart).ok();
  }
  EXPECT_FALSE(access.OpenSession(first_link, kStart).ok());
  std::string first_session;
  for (size_t i = 0; i <= PageAccess::kMostSessions; ++i) {
    const std::string session =
        *access.OpenSession(*access.MakeLink({"bearer", Role::kView}, kStart), kStart);
    if (i == 0) first_session = session;
    EXPECT_EQ(access.Find(first_session, kStart).has_value(), i < PageAccess::kMostSessions);
  }
}

TEST(PageCookie, HasThePortOfTheAddressInItsName) {
  EXPECT_EQ(PageCookieName("127.0.0.1:8700", false), "longhaul_8700");
  EXPECT_EQ(PageCookieName("[::1]:8700", true), "__Host-longhaul_8700");
  EXPECT_EQ(PageCookieName("[::1]", false), "longhaul");
  EXPECT_EQ(PageCookieName("cluster.example", true), "__Host-longhaul");
  EXPECT_EQ(PageCookieName("host:8700;x", false), "longhaul");
}

TEST(PageCookie, IsForNoScriptAndNoOtherSite) {
  EXPECT_EQ(SetPageCookie("a", "b", false), "a=b; Path=/; HttpOnly; SameSite=Strict");
  EXPECT_EQ(SetPageCookie("a", "b", true), "a=b; Path=/; HttpOnly; SameSite=Strict; Secure");
}

TEST(PageCookie, FindsEachCookieOfTheName) {
  EXPECT_EQ(CookieValues("x=1; a=2;a=3 ; aa=4; a", "a"), (std::vector<std::string>{"2", "3"}));
  EXPECT_TRUE(CookieValues("", "a").empty());
  std::string many;
  for (int i = 0; i < 100; ++i) many += "a=1;";
  EXPECT_EQ(CookieValues(many, "a").size(), 8u);
}

}  // namespace
}  // namespace longhaul::service
