#include "service/controller/rest/reservation_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::service::reservation_request_test {
namespace {

using std::chrono::hours;
using testing::HasSubstr;

const Instant kNow = InstantFromNanoseconds(1'790'000'000'000'000'000);  // 2026-09-21T14:13:20Z

Instant FromOf(const proto::NodeReservation& each) {
  return InstantFromNanoseconds(each.from_ns());
}
Instant UntilOf(const proto::NodeReservation& each) {
  return InstantFromNanoseconds(each.until_ns());
}

TEST(ReservationRequest, ReadsAllKeys) {
  const auto wanted = ParseReservation(
      R"({"name": "fans", "nodes": ["rack-3", "node-7"], "from": "+2h", "for": "4h",
          "queues": ["a"], "users": ["b"], "reason": "new fans"})",
      kNow);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_EQ(wanted->name(), "fans");
  EXPECT_EQ(wanted->nodes_size(), 2);
  EXPECT_EQ(wanted->nodes(1), "node-7");
  EXPECT_EQ(FromOf(*wanted), kNow + hours(2));
  EXPECT_EQ(UntilOf(*wanted), kNow + hours(6));
  EXPECT_EQ(wanted->queues(0), "a");
  EXPECT_EQ(wanted->users(0), "b");
  EXPECT_EQ(wanted->reason(), "new fans");
}

TEST(ReservationRequest, ReadsTimesInEveryForm) {
  const auto times = [](const std::string& keys) {
    const auto wanted = ParseReservation(R"({"name": "a", "nodes": ["n"], )" + keys + "}", kNow);
    EXPECT_TRUE(wanted.ok()) << wanted.status();
    return ToString(FromOf(*wanted)) + " " + ToString(UntilOf(*wanted));
  };
  EXPECT_EQ(times(R"("for": "1h")"), "2026-09-21T14:13:20.000Z 2026-09-21T15:13:20.000Z");
  EXPECT_EQ(times(R"("from": "now", "until": "+2h")"),
            "2026-09-21T14:13:20.000Z 2026-09-21T16:13:20.000Z");
  EXPECT_EQ(times(R"("from": "2026-10-01T08:00Z", "until": "2026-10-02")"),
            "2026-10-01T08:00:00.000Z 2026-10-02T00:00:00.000Z");
}

TEST(ReservationRequest, NamesWhatIsWrong) {
  const std::string many = [] {
    std::string text = R"({"name": "a", "for": "1h", "nodes": ["n")";
    for (int i = 0; i < 100'000; ++i) text += ",\"n" + std::to_string(i) + "\"";
    return text + "]}";
  }();
  const std::string long_name = R"({"name": ")" + std::string(10'000, 'a') + R"(", "for": "1h"})";
  const struct {
    std::string body;
    const char* part;
  } kRows[] = {
      {"[]", "must be a JSON object"},
      {"{}", "\"name\" of the reservation is missing"},
      {R"({"name": 7})", "\"name\" must be a text"},
      {long_name, "\"name\" is too long"},
      {R"({"nmae": "a"})", "did you mean \"name\""},
      {R"({"name": "a"})", "one of \"until\" and \"for\""},
      {R"({"name": "a", "for": "1h", "until": "+1h"})", "one of \"until\" and \"for\""},
      {R"({"name": "a", "for": "-1h"})", "'-1h' is not a time such as 4h"},
      {R"({"name": "a", "for": "0s"})", "is not a time such as 4h"},
      {R"({"name": "a", "for": "99999999999d"})", "is not a time such as 4h"},
      {R"({"name": "a", "for": "1h", "from": "soon"})", "\"from\": 'soon' is not a time"},
      {R"({"name": "a", "for": "1h", "from": "+-2h"})", "is not a time"},
      {R"({"name": "a", "for": "1h", "from": "2026-01-31T08:00"})", "is not a time"},
      {R"({"name": "a", "until": "2026-01-31"})", "which is past"},
      {R"({"name": "a", "for": "1h", "from": "2020-01-01"})", "which is past"},
      {R"({"name": "a", "for": "1h", "nodes": "n"})", "\"nodes\" must be a list"},
      {R"({"name": "a", "for": "1h", "nodes": [7]})", "\"nodes\" must be a list"},
      {R"({"name": "a", "for": "1h", "users": [""]})", "'' in \"users\" is not a name"},
      {many, "\"nodes\" must be a list of at most 65,536 names"},
  };
  for (const auto& row : kRows) {
    const Status status = ParseReservation(row.body, kNow).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.body.substr(0, 80);
    EXPECT_THAT(status.message(), HasSubstr(row.part)) << row.body.substr(0, 80);
    EXPECT_LT(status.message().size(), 400u);
  }
}

TEST(ReservationRequest, ReportsAReservation) {
  proto::NodeReservation reservation;
  reservation.set_name("fans");
  reservation.add_nodes("rack-3");
  reservation.set_from_ns(ToNanoseconds(kNow));
  reservation.set_until_ns(ToNanoseconds(kNow + hours(1)));
  const auto json = ToJson(reservation, kNow);
  EXPECT_EQ(json["until"], "2026-09-21T15:13:20.000Z");
  EXPECT_EQ(json["open"], true);
  EXPECT_EQ(json["maintenance"], true);
  EXPECT_EQ(ToJson(reservation, kNow - hours(1))["open"], false);
  reservation.add_users("alice");
  EXPECT_EQ(ToJson(reservation, kNow)["maintenance"], false);
}

}  // namespace
}  // namespace longhaul::service::reservation_request_test
