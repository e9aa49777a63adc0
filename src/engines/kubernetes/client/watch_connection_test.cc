#include "engines/kubernetes/client/watch_connection.h"

#include "base/random.h"
#include "engines/kubernetes/client/client_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::milliseconds;

class WatchTest : public ClientFixture {
 protected:
  WatchTest() {
    options_.resource = Pods();
    options_.settings.page_limit = 2;
    options_.settings.reopen_jitter = milliseconds(2);
    options_.settings.first_delay = milliseconds(1);
    options_.settings.longest_delay = milliseconds(4);
  }

  void Watch() {
    Connect();
    watch_ = *client_->Watch(options_, view_);
  }

  // Whether the view has exactly the objects of the server, in their present versions.
  bool Agrees() {
    std::map<std::string, std::string> want;
    for (int i = 0; i < 20; ++i) {
      const std::string name = "p" + std::to_string(i);
      const Json* const pod = server_->api().Find("pods", {"ns", name});
      if (pod != nullptr) want["ns/" + name] = (*pod)["metadata"]["resourceVersion"];
    }
    return view_.versions == want;
  }

  size_t RequestsWith(const std::string& part) const {
    size_t count = 0;
    for (const std::string& target : server_->targets()) {
      count += target.find(part) != target.npos ? 1 : 0;
    }
    return count;
  }

  Client::WatchOptions options_;
  View view_;
  std::unique_ptr<WatchConnection> watch_;
};

TEST_F(WatchTest, SeesWhatWasThereAndWhatChanges) {
  MakePod("p0");
  Watch();
  Until([&] { return view_.synced == 1; });
  EXPECT_TRUE(Agrees());
  MakePod("p1");
  Label("p0", "x");
  server_->Publish();
  Until([&] { return view_.changes == 3; });
  EXPECT_TRUE(Agrees());
  server_->api().Remove("pods", {"ns", "p0"});
  server_->Publish();
  Until([&] { return view_.changes == 4; });
  EXPECT_TRUE(Agrees());
  EXPECT_EQ(server_->requests(), 1u);
  EXPECT_TRUE(view_.troubles.empty());
}

TEST_F(WatchTest, ResumesWhereItWasAfterABreak) {
  MakePod("p0");
  Watch();
  Until([&] { return view_.synced == 1; });
  server_->BreakWatches();
  MakePod("p1");
  server_->api().Remove("pods", {"ns", "p0"});
  Until([&] { return view_.changes == 3; });
  EXPECT_TRUE(Agrees());
  EXPECT_EQ(RequestsWith("sendInitialEvents"), 1u);
  EXPECT_EQ(view_.synced, 1);
}

TEST_F(WatchTest, ListsAgainWhenItsVersionHasExpired) {
  MakePod("p0");
  MakePod("p1");
  Watch();
  Until([&] { return view_.synced == 1; });
  server_->BreakWatches();
  server_->api().Remove("pods", {"ns", "p0"});
  MakePod("p2");
  server_->api().Compact();
  Until([&] { return view_.synced == 2; });
  EXPECT_TRUE(Agrees());
  EXPECT_EQ(view_.changes, 4);  // p0 and p1, then -p0 and p2; p1 is not reported again
}

TEST_F(WatchTest, ListsAgainWhenItIsTooFarBehind) {
  MakePod("p0");
  Watch();
  Until([&] { return view_.synced == 1; });
  server_->HoldEvents(true);
  server_->api().Remove("pods", {"ns", "p0"});
  MakePod("p1");
  server_->api().Compact();
  server_->HoldEvents(false);
  server_->Publish();
  Until([&] { return view_.synced == 2; });
  EXPECT_TRUE(Agrees());
  EXPECT_TRUE(view_.troubles.empty());
}

TEST_F(WatchTest, KeepsItsVersionByBookmarks) {
  MakePod("p0");
  Watch();
  Until([&] { return view_.synced == 1; });
  server_->api().Compact();
  server_->SendBookmarks();
  const std::string version = std::to_string(server_->api().version());
  Until([&] { return watch_->state().version() == version; });
  server_->BreakWatches();
  Until([&] { return RequestsWith("resourceVersion=" + version) == 1; });
  EXPECT_EQ(view_.synced, 1);
}

TEST_F(WatchTest, ReadsPagesWhereStreamingListsAreRefused) {
  server_->api().SetStreamingLists(false);
  for (int i = 0; i < 5; ++i) MakePod("p" + std::to_string(i));
  Watch();
  Until([&] { return view_.synced == 1; });
  EXPECT_TRUE(Agrees());
  EXPECT_EQ(RequestsWith("limit=2"), 3u);
}

TEST_F(WatchTest, StartsTheListAgainWhenAPageExpires) {
  server_->api().SetStreamingLists(false);
  for (int i = 0; i < 5; ++i) MakePod("p" + std::to_string(i));
  Fault fault;
  fault.status = 410;
  fault.path = "continue=";
  server_->Inject(fault);
  Watch();
  Until([&] { return view_.synced == 1; });
  EXPECT_TRUE(Agrees());
  EXPECT_EQ(RequestsWith("limit=2"), 5u);
}

TEST_F(WatchTest, OpensAStreamThatIsSilentAgain) {
  options_.settings.idle_limit = milliseconds(20);
  MakePod("p0");
  Fault fault;
  fault.kind = Fault::Kind::kSilent;
  server_->Inject(fault);
  Watch();
  Until([&] { return view_.synced == 1; });
  EXPECT_TRUE(Agrees());
  ASSERT_FALSE(view_.troubles.empty());
  EXPECT_EQ(view_.troubles[0].message(), "watch /api/v1/pods received no line for 20 ms");
}

TEST_F(WatchTest, SurvivesACutAtEachPlaceOfTheFirstLines) {
  MakePod("p0");
  MakePod("p1");
  for (size_t bytes = 0; bytes < 1'200; bytes += 97) {
    Fault fault;
    fault.kind = Fault::Kind::kCutStream;
    fault.bytes = bytes;
    server_->Inject(fault);
    view_ = View();
    watch_.reset();
    Watch();
    Until([&] { return view_.synced == 1; });
    EXPECT_TRUE(Agrees()) << bytes;
    // The rest of a line must not be read as the beginning of the next stream.
    for (const Status& trouble : view_.troubles) {
      EXPECT_EQ(trouble.code(), Code::kUnavailable) << bytes << ": " << trouble;
    }
  }
}

TEST_F(WatchTest, ReportsAStreamThatEndsWithinALine) {
  MakePod("p0");
  Watch();
  Until([&] { return view_.synced == 1; });
  Fault fault;
  fault.kind = Fault::Kind::kEndWithinLine;
  fault.bytes = 20;
  server_->Inject(fault);
  server_->BreakWatches();
  MakePod("p1");
  Until([&] { return view_.changes == 2; });
  EXPECT_TRUE(Agrees());
  ASSERT_EQ(view_.troubles.size(), 2u);  // the break, and this
  EXPECT_EQ(view_.troubles[1].message(), "the stream of watch pods ended within a line");
}

TEST_F(WatchTest, ReportsALineOverTheLimitAndListsAgain) {
  MakePod("p0");
  Fault fault;
  fault.kind = Fault::Kind::kRawLine;
  fault.text.assign(kMaxLineBytes + 1, ' ');
  server_->Inject(fault);
  Watch();
  Until([&] { return view_.synced == 1; });
  ASSERT_EQ(view_.troubles.size(), 1u);
  EXPECT_EQ(view_.troubles[0].code(), Code::kResourceExhausted);
}

TEST_F(WatchTest, ReadsTheTokenAgainWhenItIsRefused) {
  server_->RequireToken("right");
  Watch();  // anonymous
  Until([&] { return view_.troubles.size() >= 2; });
  EXPECT_EQ(view_.troubles[0].code(), Code::kUnauthenticated);
  EXPECT_GE(client_->counts().refreshed_credentials, 2u);
  server_->RequireToken("");
  Until([&] { return view_.synced == 1; });
}

// Whatever fails, the view becomes that of the server.
TEST_F(WatchTest, ConvergesUnderRandomFaults) {
  size_t injected = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    view_ = View();
    watch_.reset();
    server_->api().SetStreamingLists(random.Below(3) > 0);
    Watch();
    for (int step = 0; step < 30; ++step) {
      const std::string name = "p" + std::to_string(random.Below(20));
      const bool there = server_->api().Find("pods", {"ns", name}) != nullptr;
      if (!there) {
        MakePod(name);
      } else if (random.Below(2) == 0) {
        server_->api().Remove("pods", {"ns", name});
      } else {
        Label(name, std::to_string(step));
      }
      server_->Publish();
      if (random.Below(6) == 0) server_->HoldEvents(random.Below(2) == 0);
      if (random.Below(8) == 0) server_->BreakWatches();
      if (random.Below(12) == 0) server_->api().Compact();
      if (random.Below(3) == 0) {
        constexpr Fault::Kind kKinds[] = {Fault::Kind::kStatus,    Fault::Kind::kDrop,
                                          Fault::Kind::kCutStream, Fault::Kind::kEndStream,
                                          Fault::Kind::kRawLine,   Fault::Kind::kRepeat};
        Fault fault;
        fault.kind = kKinds[random.Below(std::size(kKinds))];
        fault.status = (const int[]){410, 429, 500, 503}[random.Below(4)];
        fault.bytes = random.Below(2'000);
        fault.text = R"({"type":"ERROR","object":{"code":410,"reason":"Expired"}})";
        server_->Inject(fault);
        ++injected;
      }
      loop_->RunOnce(milliseconds(1));
    }
    server_->ClearFaults();
    server_->HoldEvents(false);
    server_->Publish();
    Until([&] { return view_.synced > 0 && Agrees(); });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(injected, 300u);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
