#include "engines/kubernetes/protocol/watch_state.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul::engines::kubernetes::watch_state_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string Object(const std::string& name, int version, const std::string& uid = "") {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"ns","uid":")" +
         (uid.empty() ? "uid-" + name : uid) + R"(","resourceVersion":")" +
         std::to_string(version) + R"("}})";
}

std::string Event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}";
}

std::string Bookmark(int version, bool end = false) {
  const std::string annotations =
      end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "";
  return Event("BOOKMARK", R"({"metadata":{"resourceVersion":")" + std::to_string(version) + "\"" +
                               annotations + "}}");
}

std::string Error(int code, const std::string& reason) {
  return Event("ERROR", R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"reason":")" +
                            reason + R"(","message":"text"})");
}

// Writes down what is reported: "+a@1", "~a@2", "-a@2", "synced", "trouble".
class Recorder final : public WatchSink {
 public:
  void OnChange(const Change& change) override {
    const char* const kinds[] = {"+", "~", "-"};
    lines.push_back(kinds[static_cast<int>(change.kind)] + change.meta.name + "@" +
                    change.meta.resource_version);
  }
  void OnSynced() override { lines.push_back("synced"); }
  void OnTrouble(const Status& status) override {
    lines.push_back("trouble");
    last_trouble = status;
  }
  std::vector<std::string> Take() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
  Status last_trouble;
};

using Lines = std::vector<std::string>;

class WatchStateTest : public testing::Test {
 protected:
  WatchStateTest() : state_(Settings(), 1, sink_) {}

  static WatchSettings Settings() {
    WatchSettings settings;
    settings.path = "/api/v1/pods";
    settings.selector = "fieldSelector=x";
    settings.page_limit = 2;
    return settings;
  }

  // Waits until the state sends something, and returns it.
  WatchState::Action Sent() {
    WatchState::Action action = state_.Next(now_);
    if (action.kind == WatchState::Kind::kWait) {
      waited_ = action.at - now_;
      now_ = action.at;
      action = state_.Next(now_);
    }
    return action;
  }

  bool Line(const std::string& text) {
    const PaddedString line(text);
    return state_.OnLine(line.view(), now_);
  }
  void Page(const std::string& text) {
    const PaddedString body(text);
    state_.OnPage(body.view(), now_);
  }
  void Refuse(Outcome outcome, std::optional<Duration> retry_after = std::nullopt) {
    state_.OnRefused({outcome, Unavailable("refused"), retry_after}, now_);
  }

  // A view of a and b, watched from version 5.
  void Synchronise() {
    Sent();
    ASSERT_TRUE(Line(Event("ADDED", Object("a", 1))));
    ASSERT_TRUE(Line(Event("ADDED", Object("b", 2))));
    ASSERT_TRUE(Line(Bookmark(5, true)));
    sink_.Take();
  }

  Instant now_ = InstantFromNanoseconds(1'000'000'000);
  Duration waited_{};
  Recorder sink_;
  WatchState state_;
};

TEST_F(WatchStateTest, BeginsWithAStreamingList) {
  const WatchState::Action action = Sent();
  EXPECT_EQ(action.kind, WatchState::Kind::kStream);
  EXPECT_TRUE(
      action.target.starts_with("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds="));
  EXPECT_TRUE(action.target.ends_with(
      "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&fieldSelector=x"));
  EXPECT_EQ(state_.Next(now_).kind, WatchState::Kind::kBusy);
  Line(Event("ADDED", Object("a", 1)));
  EXPECT_FALSE(state_.synced());
  Line(Bookmark(5, true));
  EXPECT_EQ(sink_.Take(), (Lines{"+a@1", "synced"}));
  EXPECT_EQ(state_.version(), "5");
  Line(Event("MODIFIED", Object("a", 6)));
  Line(Event("DELETED", Object("a", 7)));
  EXPECT_EQ(sink_.Take(), (Lines{"~a@6", "-a@7"}));
  EXPECT_EQ(state_.version(), "7");
}

TEST_F(WatchStateTest, ContinuesFromTheNewestVersionAfterARegularEnd) {
  Synchronise();
  Line(Bookmark(9));
  state_.OnEnd(Status(), now_);
  EXPECT_TRUE(Sent().target.ends_with("&resourceVersion=9&fieldSelector=x"));
  EXPECT_LE(waited_, milliseconds(200));
  EXPECT_EQ(sink_.Take(), Lines{});
}

TEST_F(WatchStateTest, FallsBackToPagesWhereStreamingListsAreRefused) {
  Sent();
  Refuse(Outcome::kInvalid);
  WatchState::Action action = Sent();
  EXPECT_EQ(action.kind, WatchState::Kind::kList);
  EXPECT_EQ(action.target, "/api/v1/pods?limit=2&fieldSelector=x");
  Page(R"({"metadata":{"resourceVersion":"5","continue":"t/+"},"items":[)" + Object("a", 1) + "," +
       Object("b", 2) + "]}");
  action = Sent();
  EXPECT_EQ(action.target, "/api/v1/pods?limit=2&continue=t%2F%2B&fieldSelector=x");
  Page(R"({"metadata":{"resourceVersion":"5"},"items":[)" + Object("c", 3) + "]}");
  EXPECT_EQ(sink_.Take(), (Lines{"+a@1", "+b@2", "+c@3", "synced"}));
  EXPECT_TRUE(Sent().target.ends_with("&resourceVersion=5&fieldSelector=x"));
}

TEST_F(WatchStateTest, ReportsTheDifferenceAfterAnExpiredVersion) {
  for (const bool as_event : {false, true}) {
    SCOPED_TRACE(as_event);
    Recorder sink;
    WatchState state(Settings(), 1, sink);
    const auto line = [&](const std::string& text) {
      const PaddedString padded(text);
      return state.OnLine(padded.view(), now_);
    };
    state.Next(now_);
    for (const char* const name : {"a", "b", "c", "d"}) line(Event("ADDED", Object(name, 1)));
    line(Bookmark(5, true));
    sink.Take();
    if (as_event) {
      EXPECT_FALSE(line(Error(410, "Expired")));
    } else {
      state.OnEnd(Status(), now_);
      now_ += seconds(1);
      state.Next(now_);
      state.OnRefused({Outcome::kGone, OutOfRange("gone"), std::nullopt}, now_);
    }
    EXPECT_EQ(sink.Take(), Lines{});
    now_ += seconds(1);
    EXPECT_NE(state.Next(now_).target.find("sendInitialEvents=true"), std::string::npos);
    // a as before, b changed, c deleted and created again, d gone, e new.
    line(Event("ADDED", Object("a", 1)));
    line(Event("ADDED", Object("b", 7)));
    line(Event("ADDED", Object("c", 8, "other")));
    line(Event("ADDED", Object("e", 9)));
    line(Bookmark(10, true));
    EXPECT_EQ(sink.Take(), (Lines{"~b@7", "-c@1", "+c@8", "+e@9", "-d@1", "synced"}));
    EXPECT_EQ(state.objects(), 4u);
  }
}

TEST_F(WatchStateTest, DropsWhatIsReportedTwice) {
  Synchronise();
  Line(Event("MODIFIED", Object("a", 6)));
  Line(Event("MODIFIED", Object("a", 6)));
  Line(Event("DELETED", Object("a", 7)));
  Line(Event("DELETED", Object("a", 7)));
  EXPECT_EQ(sink_.Take(), (Lines{"~a@6", "-a@7"}));
}

TEST_F(WatchStateTest, StartsAgainWhenTheInitialEventsEndEarly) {
  Sent();
  Line(Event("ADDED", Object("a", 1)));
  state_.OnEnd(Status(), now_);
  EXPECT_EQ(sink_.Take(), (Lines{"+a@1", "trouble"}));
  EXPECT_NE(Sent().target.find("sendInitialEvents=true"), std::string::npos);
  Line(Bookmark(9, true));
  EXPECT_EQ(sink_.Take(), (Lines{"-a@1", "synced"}));
}

TEST_F(WatchStateTest, ForgetsWhatAFailedListHasShown) {
  for (const bool streaming : {true, false}) {
    SCOPED_TRACE(streaming);
    Recorder sink;
    WatchSettings settings = Settings();
    settings.streaming_list = streaming;
    WatchState state(settings, 1, sink);
    const auto line = [&](const std::string& text) {
      const PaddedString padded(text);
      return state.OnLine(padded.view(), now_);
    };
    const auto page = [&](const std::string& items) {
      const PaddedString padded(R"({"metadata":{"resourceVersion":"5"},"items":[)" + items + "]}");
      state.OnPage(padded.view(), now_);
    };
    state.Next(now_);
    if (streaming) {
      line(Event("ADDED", Object("a", 1)));
      EXPECT_FALSE(line(Error(500, "InternalError")));
    } else {
      page(Object("a", 1) + R"(,{"metadata":{}})");
    }
    EXPECT_EQ(sink.Take(), (Lines{"+a@1", "trouble"}));
    // a is deleted before the list is repeated.
    now_ += seconds(60);
    state.Next(now_);
    if (streaming) {
      line(Bookmark(5, true));
    } else {
      page("");
    }
    EXPECT_EQ(sink.Take(), (Lines{"-a@1", "synced"}));
  }
}

TEST_F(WatchStateTest, DoublesTheDelayUntilTheLimit) {
  Duration last{};
  for (int i = 0; i < 12; ++i) {
    Sent();
    if (i > 0) last = waited_;
    Refuse(Outcome::kUnreachable);
  }
  EXPECT_GE(last, seconds(15));
  EXPECT_LE(last, seconds(30));
  Sent();
  Refuse(Outcome::kRetry, seconds(60));
  Sent();
  EXPECT_GE(waited_, seconds(60));
}

TEST_F(WatchStateTest, DelaysTheListsOfAServerThatAlwaysExpires) {
  Synchronise();
  Duration total{};
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(Line(Error(410, "Expired")));
    Sent();
    total += waited_;
    ASSERT_TRUE(Line(Bookmark(5 + i, true)));
  }
  EXPECT_GE(total, seconds(20));
}

TEST_F(WatchStateTest, ListsAgainAfterALineThatIsNotUnderstood) {
  for (const char* const line :
       {"{", R"({"type":"ADDED","object":{"metadata":{"name":7}}})", "nonsense", "[]"}) {
    SCOPED_TRACE(line);
    Recorder sink;
    WatchState state(Settings(), 1, sink);
    state.Next(now_);
    const PaddedString end(Bookmark(5, true));
    state.OnLine(end.view(), now_);
    sink.Take();
    const PaddedString padded(line);
    EXPECT_FALSE(state.OnLine(padded.view(), now_));
    EXPECT_EQ(sink.Take(), Lines{"trouble"});
    const WatchState::Action action = state.Next(now_ + seconds(60));
    EXPECT_NE(action.target.find("sendInitialEvents=true"), std::string::npos);
  }
}

TEST_F(WatchStateTest, KeepsItsVersionAfterAnotherErrorEvent) {
  Synchronise();
  EXPECT_FALSE(Line(Error(500, "InternalError")));
  EXPECT_EQ(sink_.Take(), Lines{"trouble"});
  EXPECT_TRUE(Sent().target.ends_with("&resourceVersion=5&fieldSelector=x"));
}

TEST_F(WatchStateTest, TreatsASilentStreamAsDead) {
  Synchronise();
  const Instant idle_at = *state_.idle_at();
  EXPECT_EQ(idle_at - now_, seconds(150));
  now_ += seconds(100);
  Line(Bookmark(6));
  EXPECT_EQ(*state_.idle_at() - now_, seconds(150));
  state_.OnIdle(now_);
  EXPECT_FALSE(state_.idle_at().has_value());
  EXPECT_TRUE(Sent().target.ends_with("&resourceVersion=6&fieldSelector=x"));
}

TEST_F(WatchStateTest, ReadsPagesWhenAServerNeverEndsTheInitialEvents) {
  Sent();
  Line(Event("ADDED", Object("a", 1)));
  state_.OnIdle(now_);
  EXPECT_EQ(Sent().kind, WatchState::Kind::kList);
}

TEST_F(WatchStateTest, DelaysAStreamThatEndsWithoutALine) {
  Synchronise();
  state_.OnEnd(Status(), now_);
  Sent();
  Duration total{};
  for (int i = 0; i < 8; ++i) {
    state_.OnEnd(Status(), now_);
    Sent();
    total += waited_;
  }
  EXPECT_GE(total, seconds(10));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::watch_state_test
