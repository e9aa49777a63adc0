#include "runtime/rendezvous/tcp_store.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "runtime/rendezvous/client_bytes.h"

namespace longhaul::runtime {
namespace {

// A store and clients that speak to it in one dialect.
class Clients {
 public:
  explicit Clients(StoreDialect dialect, StoreLimits limits = {})
      : dialect_(dialect), store_(dialect, limits) {}

  TcpStore& store() { return store_; }
  const StoreCodes& code() const {
    return dialect_ == StoreDialect::kTorch1    ? kTorch1Codes
           : dialect_ == StoreDialect::kTorch21 ? kTorch21Codes
                                                : kTorch2Codes;
  }

  TcpStore::ConnectionId Connect() {
    const TcpStore::ConnectionId id = store_.Open();
    if (dialect_ == StoreDialect::kTorch2) {
      EXPECT_EQ(Call(id, StoreHello()), "");
    }
    return id;
  }
  Status Send(TcpStore::ConnectionId id, std::string_view bytes) {
    return store_.Receive(id, AsBytes(bytes));
  }
  std::string Take(TcpStore::ConnectionId id) {
    const std::string output(store_.Output(id));
    EXPECT_EQ(store_.with_output().contains(id), !output.empty());
    store_.Consume(id, output.size());
    return output;
  }
  std::string Call(TcpStore::ConnectionId id, std::string_view bytes) {
    const Status status = Send(id, bytes);
    EXPECT_TRUE(status.ok()) << status;
    return Take(id);
  }

  void Set(TcpStore::ConnectionId id, const std::string& key, const std::string& value) {
    EXPECT_EQ(Call(id, RequestBytes(code().set, {key, value})), "");
  }
  std::string Get(TcpStore::ConnectionId id, const std::string& key) {
    return Call(id, RequestBytes(code().get, {key}));
  }
  std::string Wait(TcpStore::ConnectionId id, const std::vector<std::string>& keys) {
    return Call(id, ListRequestBytes(code().wait, keys.size(), keys));
  }

 private:
  StoreDialect dialect_;
  TcpStore store_;
};

const std::string kZero(1, '\0');
const std::string kOne(1, '\1');
std::string I64(int64_t number) { return NumberBytes(number); }

class EveryDialect : public testing::TestWithParam<StoreDialect> {};
INSTANTIATE_TEST_SUITE_P(TcpStore, EveryDialect,
                         testing::Values(StoreDialect::kTorch1, StoreDialect::kTorch21,
                                         StoreDialect::kTorch2));
class LaterDialects : public testing::TestWithParam<StoreDialect> {};
INSTANTIATE_TEST_SUITE_P(TcpStore, LaterDialects,
                         testing::Values(StoreDialect::kTorch21, StoreDialect::kTorch2));

// Captured from PyTorch 1.13's client.
TEST(TcpStore, KnowsTheDialectOfAVersion) {
  for (const char* version : {"", "1.13.0", "1.13.0a0", "2.0.1", "2.10.0", "unknown"}) {
    EXPECT_EQ(DialectOfTorch(version), StoreDialect::kTorch1) << version;
  }
  for (const char* version : {"2.1", "2.1.0", "2.1.2+cu118"}) {
    EXPECT_EQ(DialectOfTorch(version), StoreDialect::kTorch21) << version;
  }
}

TEST(TcpStore, RefusesAsAVersionWhatNoPyTorchHas) {
  for (const char* version : {"1.13.0", "2.1.2+cu118", "2.4.0a0+git12"}) {
    EXPECT_TRUE(IsTorchVersion(version)) << version;
  }
  for (const std::string& version :
       {std::string(), std::string("v2"), std::string("2.4 beta"), std::string("2.\xc3\xa9"),
        std::string("2\n"), std::string(41, '2')}) {
    EXPECT_FALSE(IsTorchVersion(version)) << version;
  }
}

TEST(TcpStore, UnderstandsTheBytesOfARealClient) {
  TcpStore store(StoreDialect::kTorch1);
  const TcpStore::ConnectionId id = store.Open();
  const std::string set("\x00\x02\0\0\0\0\0\0\0/k\x02\0\0\0\0\0\0\0v1", 21);
  const std::string wait("\x05\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0/k", 19);
  const std::string get("\x02\x02\0\0\0\0\0\0\0/k", 11);
  ASSERT_TRUE(store.Receive(id, AsBytes(set)).ok());
  EXPECT_EQ(store.Output(id), "");
  ASSERT_TRUE(store.Receive(id, AsBytes(wait)).ok());
  EXPECT_EQ(store.Output(id), kZero);
  store.Consume(id, 1);
  ASSERT_TRUE(store.Receive(id, AsBytes(get)).ok());
  EXPECT_EQ(store.Output(id), std::string("\x02\0\0\0\0\0\0\0v1", 10));
}

TEST_P(EveryDialect, SetsAndGets) {
  Clients clients(GetParam());
  const auto one = clients.Connect();
  const auto two = clients.Connect();
  clients.Set(one, "/k", "first");
  clients.Set(one, "/k", "");
  EXPECT_EQ(clients.Get(two, "/k"), TextBytes(""));
  clients.Set(two, "/k", "second");
  EXPECT_EQ(clients.Get(one, "/k"), TextBytes("second"));
  EXPECT_EQ(clients.Get(one, "/missing"), TextBytes(""));
  EXPECT_EQ(clients.Call(one, RequestBytes(clients.code().num_keys, {})), I64(1));
}

TEST_P(EveryDialect, AddsToDecimalText) {
  Clients clients(GetParam());
  const auto id = clients.Connect();
  const std::string add = RequestBytes(clients.code().add, {"/n"});
  EXPECT_EQ(clients.Call(id, add + I64(1)), I64(1));
  EXPECT_EQ(clients.Call(id, add + I64(-5)), I64(-4));
  EXPECT_EQ(clients.Get(id, "/n"), TextBytes("-4"));
  clients.Set(id, "/n", "40");
  EXPECT_EQ(clients.Call(id, add + I64(2)), I64(42));
  clients.Set(id, "/n", "forty");
  EXPECT_EQ(clients.Send(id, add + I64(2)).code(), Code::kInvalidArgument);
}

TEST_P(EveryDialect, RefusesASumThatOverflows) {
  Clients clients(GetParam());
  const auto id = clients.Connect();
  const std::string add = RequestBytes(clients.code().add, {"/n"});
  clients.Call(id, add + I64(INT64_MAX));
  EXPECT_EQ(clients.Send(id, add + I64(1)).code(), Code::kOutOfRange);
}

TEST_P(EveryDialect, ComparesAndSetsAsPyTorchDoes) {
  const struct {
    const char* what;
    const char* before;  // nullptr: absent
    const char* expected;
    const char* desired;
    const char* want_reply;
    const char* want_after;  // nullptr: absent
  } kRows[] = {
      {"absent, nothing expected: stored", nullptr, "", "new", "new", "new"},
      {"absent, something expected: returns what it expected", nullptr, "x", "new", "x", nullptr},
      {"as expected: stored", "old", "old", "new", "new", "new"},
      {"not as expected: returns what is there", "old", "x", "new", "old", "old"},
      {"there, nothing expected: returns what is there", "old", "", "new", "old", "old"},
      {"there and empty, nothing expected: stored", "", "", "new", "new", "new"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.what);
    Clients clients(GetParam());
    const auto id = clients.Connect();
    if (row.before != nullptr) clients.Set(id, "/k", row.before);
    EXPECT_EQ(clients.Call(
                  id, RequestBytes(clients.code().compare_set, {"/k", row.expected, row.desired})),
              TextBytes(row.want_reply));
    EXPECT_EQ(clients.Get(id, "/k"), TextBytes(row.want_after == nullptr ? "" : row.want_after));
    EXPECT_EQ(clients.store().keys(), row.want_after == nullptr ? 0u : 1u);
  }
}

TEST_P(EveryDialect, ChecksAndDeletes) {
  Clients clients(GetParam());
  const auto id = clients.Connect();
  clients.Set(id, "/a", "1");
  const auto check = [&](const std::vector<std::string>& keys) {
    return clients.Call(id, ListRequestBytes(clients.code().check, keys.size(), keys));
  };
  EXPECT_EQ(check({}), kZero);
  EXPECT_EQ(check({"/a"}), kZero);
  EXPECT_EQ(check({"/a", "/b"}), kOne);
  EXPECT_EQ(clients.Call(id, RequestBytes(clients.code().remove, {"/a"})), I64(1));
  EXPECT_EQ(clients.Call(id, RequestBytes(clients.code().remove, {"/a"})), I64(0));
  EXPECT_EQ(check({"/a"}), kOne);
}

TEST_P(EveryDialect, AnswersAWaitOnceAllItsKeysAreThere) {
  Clients clients(GetParam());
  const auto waiter = clients.Connect();
  const auto setter = clients.Connect();
  clients.Set(setter, "/a", "1");
  EXPECT_EQ(clients.Wait(waiter, {"/a"}), kZero);
  EXPECT_EQ(clients.Wait(waiter, {}), kZero);
  EXPECT_EQ(clients.Wait(waiter, {"/a", "/b", "/c", "/c"}), "");
  clients.Set(setter, "/c", "1");
  EXPECT_EQ(clients.Take(waiter), "");
  clients.Call(setter, RequestBytes(clients.code().add, {"/b"}) + I64(1));
  EXPECT_EQ(clients.Take(waiter), kZero);
  clients.Set(setter, "/b", "again");
  EXPECT_EQ(clients.Take(waiter), "") << "one wait, one answer";
}

TEST_P(EveryDialect, WakesAllWhoWaitForAKey) {
  Clients clients(GetParam());
  const auto setter = clients.Connect();
  std::vector<TcpStore::ConnectionId> waiters;
  for (int i = 0; i < 5; ++i) {
    waiters.push_back(clients.Connect());
    EXPECT_EQ(clients.Wait(waiters.back(), {"/k"}), "");
  }
  clients.Call(setter, RequestBytes(clients.code().compare_set, {"/k", "", "v"}));
  EXPECT_EQ(clients.store().with_output(),
            std::set<TcpStore::ConnectionId>(waiters.begin(), waiters.end()));
  for (const auto waiter : waiters) EXPECT_EQ(clients.Take(waiter), kZero);
}

TEST_P(EveryDialect, AFailedCompareSetWakesNobody) {
  Clients clients(GetParam());
  const auto waiter = clients.Connect();
  const auto setter = clients.Connect();
  clients.Wait(waiter, {"/k"});
  clients.Call(setter, RequestBytes(clients.code().compare_set, {"/k", "x", "v"}));
  EXPECT_EQ(clients.Take(waiter), "");
}

// PyTorch 1.13's client gives up a wait without a word.
TEST_P(EveryDialect, TheFirstByteOfARequestCancelsThePendingWait) {
  Clients clients(GetParam());
  const auto waiter = clients.Connect();
  const auto setter = clients.Connect();
  clients.Wait(waiter, {"/k"});
  const std::string get = RequestBytes(clients.code().get, {"/other"});
  EXPECT_EQ(clients.Call(waiter, get.substr(0, 1)), "");
  clients.Set(setter, "/k", "too late");
  EXPECT_EQ(clients.Take(waiter), "");
  EXPECT_EQ(clients.Call(waiter, get.substr(1)), TextBytes(""));
}

TEST_P(EveryDialect, AClosedConnectionWaitsNoMore) {
  Clients clients(GetParam());
  const auto setter = clients.Connect();
  const Bytes before = clients.store().memory();
  const auto waiter = clients.Connect();
  clients.Wait(waiter, {"/a", "/b"});
  EXPECT_TRUE(clients.Send(waiter, RequestBytes(clients.code().get, {"/half"}).substr(0, 12)).ok());
  EXPECT_GT(clients.store().memory(), before);
  clients.store().Close(waiter);
  EXPECT_EQ(clients.store().memory(), before);
  clients.Set(setter, "/a", "1");
  clients.Set(setter, "/b", "1");
}

// Every operation of the dialect in one stream, cut at every byte.
TEST_P(EveryDialect, ReadsRequestsThatAreCutAnywhere) {
  const Clients dialect(GetParam());
  const StoreCodes& code = dialect.code();
  std::string stream = GetParam() == StoreDialect::kTorch2 ? StoreHello() : "";
  stream += RequestBytes(code.add, {"init/"}) + I64(1) + RequestBytes(code.set, {"/a", "1"}) +
            RequestBytes(code.compare_set, {"/a", "1", "22"}) + RequestBytes(code.get, {"/a"}) +
            ListRequestBytes(code.check, 2, {"/a", "/b"}) +
            ListRequestBytes(code.wait, 2, {"/a", "/a"}) + RequestBytes(code.num_keys, {});
  std::string want = I64(1) + TextBytes("22") + TextBytes("22") + kOne + kZero + I64(2);
  if (code.watch >= 0) stream += RequestBytes(code.watch, {"/a"});
  if (code.append >= 0) {
    stream += RequestBytes(code.append, {"/a", "3"}) +
              ListRequestBytes(code.multi_set, 2, {"/x", "8", "/y", "9"}) +
              ListRequestBytes(code.multi_get, 3, {"/y", "/a", "/none"}) +
              RequestBytes(code.cancel_wait, {});
    want += TextBytes("9") + TextBytes("223") + TextBytes("") + kOne;
  }
  if (code.ping >= 0) {
    stream += RequestBytes(code.ping, {}) + NumberBytes(uint32_t{0xFFFFFFFE}) +
              RequestBytes(code.push, {"/q", "7"}) + RequestBytes(code.length, {"/q"}) +
              RequestBytes(code.pop, {"/q"}) + RequestBytes(code.pop, {"/q"});
    want += NumberBytes(uint32_t{0xFFFFFFFE}) + I64(1) + I64(1) + TextBytes("7") + I64(0);
  }
  stream += RequestBytes(code.remove, {"/a"});
  want += I64(1);

  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    TcpStore store(GetParam());
    const auto id = store.Open();
    ASSERT_TRUE(store.Receive(id, AsBytes(stream.substr(0, cut))).ok());
    ASSERT_TRUE(store.Receive(id, AsBytes(stream.substr(cut))).ok());
    ASSERT_EQ(store.Output(id), want) << "cut at byte " << cut;
  }
  TcpStore store(GetParam());
  const auto id = store.Open();
  for (const char byte : stream) {
    ASSERT_TRUE(store.Receive(id, AsBytes({&byte, 1})).ok());
  }
  EXPECT_EQ(store.Output(id), want) << "one byte at a time";
}

TEST_P(LaterDialects, AppendCreatesAndWakes) {
  Clients clients(GetParam());
  const auto waiter = clients.Connect();
  const auto setter = clients.Connect();
  clients.Wait(waiter, {"/a", "/m"});
  EXPECT_EQ(clients.Call(setter, RequestBytes(clients.code().append, {"/a", "x"})), "");
  EXPECT_EQ(clients.Call(setter, ListRequestBytes(clients.code().multi_set, 1, {"/m", "y"})), "");
  EXPECT_EQ(clients.Take(waiter), kZero);
  EXPECT_EQ(clients.Get(waiter, "/a"), TextBytes("x"));
}

TEST_P(LaterDialects, CancelWaitAnswersAlsoWhenTheWaitHasFired) {
  Clients clients(GetParam());
  const auto waiter = clients.Connect();
  const auto setter = clients.Connect();
  const std::string cancel = RequestBytes(clients.code().cancel_wait, {});
  clients.Wait(waiter, {"/k"});
  EXPECT_EQ(clients.Call(waiter, cancel), kOne);
  clients.Set(setter, "/k", "late");
  EXPECT_EQ(clients.Take(waiter), "");

  clients.Wait(waiter, {"/l"});
  clients.Set(setter, "/l", "in time");
  EXPECT_EQ(clients.Call(waiter, cancel), kZero + kOne);
}

TEST(TcpStore, AQueueHandsOutInOrderAndWakesTheLongestWaiting) {
  Clients clients(StoreDialect::kTorch2);
  const auto first = clients.Connect();
  const auto second = clients.Connect();
  const auto pusher = clients.Connect();
  clients.Wait(second, {"/q"});  // waits longest, though its number is higher
  clients.Wait(first, {"/q"});
  EXPECT_EQ(clients.Call(pusher, RequestBytes(kTorch2Codes.push, {"/q", "a"})), "");
  EXPECT_EQ(clients.Take(second), kZero);
  EXPECT_EQ(clients.Take(first), "");
  clients.Call(pusher, RequestBytes(kTorch2Codes.push, {"/q", "b"}));
  EXPECT_EQ(clients.Take(first), kZero);

  EXPECT_EQ(clients.Call(pusher, ListRequestBytes(kTorch2Codes.check, 1, {"/q"})), kZero);
  EXPECT_EQ(clients.Call(pusher, RequestBytes(kTorch2Codes.length, {"/q"})), I64(2));
  EXPECT_EQ(clients.Call(second, RequestBytes(kTorch2Codes.pop, {"/q"})), I64(2) + TextBytes("a"));
  EXPECT_EQ(clients.Call(first, RequestBytes(kTorch2Codes.pop, {"/q"})), I64(1) + TextBytes("b"));
  EXPECT_EQ(clients.Call(first, RequestBytes(kTorch2Codes.pop, {"/q"})), I64(0));
  EXPECT_EQ(clients.Call(pusher, ListRequestBytes(kTorch2Codes.check, 1, {"/q"})), kOne);
  EXPECT_EQ(clients.store().memory(), Bytes(0));
}

TEST(TcpStore, ListsTheKeysOfValuesInOrder) {
  Clients clients(StoreDialect::kTorch2);
  const auto id = clients.Connect();
  const std::string list = RequestBytes(kTorch2Codes.list_keys, {});
  EXPECT_EQ(clients.Call(id, list), I64(0));
  for (const char* key : {"/c", "/a", "/b"}) clients.Set(id, key, "v");
  clients.Call(id, RequestBytes(kTorch2Codes.push, {"/q", "a queue is no value"}));
  EXPECT_EQ(clients.Call(id, list), I64(3) + TextBytes("/a") + TextBytes("/b") + TextBytes("/c"));
}

// The bytes and answers of PyTorch 2.15's own server.
TEST(TcpStore, ABarrierReleasesAllOnceAsManyHaveCome) {
  Clients clients(StoreDialect::kTorch2);
  const auto first = clients.Connect();
  const auto second = clients.Connect();
  const auto third = clients.Connect();
  const auto barrier = [](const std::string& key, int64_t world) {
    return RequestBytes(kTorch2Codes.barrier, {key}) + I64(world);
  };
  EXPECT_EQ(clients.Call(first, barrier("/b", 3)), "");
  EXPECT_EQ(clients.Call(second, barrier("/b", 3)), "");
  EXPECT_EQ(clients.Call(third, barrier("/b", 3)), kZero);
  EXPECT_EQ(clients.Take(first) + clients.Take(second), kZero + kZero);
  EXPECT_EQ(clients.Call(first, barrier("/b", 3)), kZero) << "it stays open";
  EXPECT_EQ(clients.Get(first, "/b"), TextBytes("4"));
  EXPECT_EQ(clients.Call(first, barrier("/one", 1)), kZero);
  EXPECT_EQ(clients.Call(first, barrier("/none", 0)), kZero);

  // The client of the smaller number releases the one with the larger number.
  EXPECT_EQ(clients.Call(first, barrier("/mixed", 3)), "");
  EXPECT_EQ(clients.Call(second, barrier("/mixed", 2)), kZero);
  EXPECT_EQ(clients.Take(first), kZero);
}

TEST(TcpStore, AClientThatLeavesABarrierWasCountedAndIsNotReleased) {
  Clients clients(StoreDialect::kTorch2);
  const auto first = clients.Connect();
  const auto second = clients.Connect();
  const std::string barrier = RequestBytes(kTorch2Codes.barrier, {"/b"}) + I64(3);
  EXPECT_EQ(clients.Call(first, barrier), "");
  EXPECT_EQ(clients.Call(first, RequestBytes(kTorch2Codes.cancel_wait, {})), kOne);
  EXPECT_EQ(clients.Call(second, barrier), "");
  clients.store().Close(second);
  const auto third = clients.Connect();
  EXPECT_EQ(clients.Call(third, barrier), kZero);
  EXPECT_EQ(clients.Take(first), "");
  clients.Call(third, RequestBytes(kTorch2Codes.remove, {"/b"}));
  EXPECT_EQ(clients.store().memory(), Bytes(0));

  clients.Set(third, "/text", "x");
  const std::string on_text = RequestBytes(kTorch2Codes.barrier, {"/text"}) + I64(1);
  EXPECT_FALSE(clients.Send(third, on_text).ok());
}

TEST(TcpStore, TellsTheDialectOfEachConnection) {
  TcpStore store(StoreDialect::kTorch1);
  const auto call = [&](TcpStore::ConnectionId id, std::string_view bytes) {
    const Status status = store.Receive(id, AsBytes(bytes));
    EXPECT_TRUE(status.ok()) << status;
    const std::string output(store.Output(id));
    store.Consume(id, output.size());
    return output;
  };
  const auto oldest = store.Open();
  const auto middle = store.Open();
  const auto newest = store.Open();
  call(oldest, RequestBytes(kTorch1Codes.set, {"/k", "v"}));
  EXPECT_EQ(call(newest, StoreHello() + RequestBytes(kTorch2Codes.get, {"/k"})), TextBytes("v"));
  EXPECT_EQ(call(middle, ListRequestBytes(kTorch21Codes.multi_get, 1, {"/k"})), TextBytes("v"));
  EXPECT_EQ(call(middle, RequestBytes(kTorch21Codes.remove, {"/k"})), I64(1));
  EXPECT_EQ(call(oldest, RequestBytes(kTorch1Codes.remove, {"/k"})), I64(0));
}

// Their first bytes begin as a hello does.
TEST(TcpStore, TakesASetForAHelloNoLongerThanItMust) {
  for (const size_t key_bytes : {0u, 0xCEu, 0x7CEu}) {
    Clients clients(StoreDialect::kTorch1);
    const auto id = clients.Connect();
    const std::string key(key_bytes, 'k');
    clients.Set(id, key, "v");
    EXPECT_EQ(clients.Get(id, key), TextBytes("v"));
  }
}

TEST(TcpStore, HangsUpOnWhatIsNoRequest) {
  const struct {
    const char* what;
    StoreDialect dialect;
    std::string bytes;
    Code want;
  } kRows[] = {
      {"unknown operation", StoreDialect::kTorch1, "\x0C", Code::kInvalidArgument},
      {"a web browser", StoreDialect::kTorch1, "GET / HTTP/1.1\r\n", Code::kInvalidArgument},
      {"unknown operation of the middle dialect", StoreDialect::kTorch21, "\x0C",
       Code::kInvalidArgument},
      {"no hello where one is due", StoreDialect::kTorch2, RequestBytes(1, {"/k", "v"}),
       Code::kInvalidArgument},
      {"a hello with a wrong number", StoreDialect::kTorch2, std::string("\0\xCE\xF7\x85\x3D", 5),
       Code::kInvalidArgument},
      {"a hello before every request", StoreDialect::kTorch1, StoreHello() + StoreHello(),
       Code::kInvalidArgument},
      {"unknown operation after a hello", StoreDialect::kTorch1, StoreHello() + "\x13",
       Code::kInvalidArgument},
      {"a key too long", StoreDialect::kTorch1, std::string(1, 2) + NumberBytes(uint64_t{8193}),
       Code::kResourceExhausted},
      {"a length of all ones", StoreDialect::kTorch1, std::string(1, 2) + I64(-1),
       Code::kResourceExhausted},
      {"a value too long", StoreDialect::kTorch1,
       RequestBytes(0, {"/k"}) + NumberBytes(uint64_t{(8u << 20) + 1}), Code::kResourceExhausted},
      {"too many keys", StoreDialect::kTorch1, std::string(1, 5) + NumberBytes(uint64_t{131'073}),
       Code::kResourceExhausted},
  };
  for (const auto& row : kRows) {
    TcpStore store(row.dialect);
    const auto id = store.Open();
    EXPECT_EQ(store.Receive(id, AsBytes(row.bytes)).code(), row.want) << row.what;
    store.Close(id);
    EXPECT_EQ(store.memory(), Bytes(0)) << row.what;
  }
}

TEST(TcpStore, TakesWhatIsJustWithinTheLimits) {
  Clients clients(StoreDialect::kTorch1);
  const auto id = clients.Connect();
  const std::string key(kMaxStoreKeyBytes, 'k');
  clients.Set(id, key, std::string(kMaxStoreValueBytes, 'v'));
  EXPECT_EQ(clients.Get(id, key).size(), 8 + kMaxStoreValueBytes);
  const std::vector<std::string> keys(kMaxStoreKeysPerCall, "/k");
  EXPECT_EQ(clients.Call(id, ListRequestBytes(4, keys.size(), keys)), kOne);
}

TEST(TcpStore, RefusesWhatMemoryDoesNotHold) {
  const StoreLimits limits{Bytes(10'000), Bytes(5'000)};
  const std::string large(6'000, 'x');
  {
    Clients clients(StoreDialect::kTorch21, limits);
    const auto id = clients.Connect();
    const auto other = clients.Connect();
    clients.Set(id, "/a", large);
    EXPECT_EQ(clients.Send(id, RequestBytes(0, {"/b", large})).code(), Code::kResourceExhausted);
    clients.store().Close(id);
    clients.Set(other, "/a", "small");
    clients.Set(other, "/b", large);
    EXPECT_EQ(clients.Send(other, RequestBytes(8, {"/b", large})).code(), Code::kResourceExhausted);
  }
  {
    Clients clients(StoreDialect::kTorch1, limits);
    const auto id = clients.Connect();
    clients.Set(id, "/a", std::string(3'000, 'x'));
    const std::string get = RequestBytes(2, {"/a"});
    EXPECT_EQ(clients.Send(id, get + get).code(), Code::kResourceExhausted) << "unread answers";
  }
  {
    Clients clients(StoreDialect::kTorch1, limits);
    const auto id = clients.Connect();
    const std::vector<std::string> keys(100, "/k");
    EXPECT_EQ(clients.Send(id, ListRequestBytes(5, 100, keys)).code(), Code::kResourceExhausted)
        << "a long wait";
    clients.store().Close(id);
    const auto slow = clients.Connect();
    EXPECT_EQ(
        clients.Send(slow, RequestBytes(0, {"/k", std::string(20'000, 'x')}).substr(0, 15'000))
            .code(),
        Code::kResourceExhausted)
        << "half a request";
    clients.store().Close(slow);
    EXPECT_EQ(clients.store().memory(), Bytes(0));
  }
}

// Random clients beside a plain model: same answers, and no memory left when all is gone.
TEST(TcpStore, AgreesWithAPlainMapOverRandomTraffic) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Clients clients(StoreDialect::kTorch21);
    std::map<std::string, std::string> model;
    std::vector<TcpStore::ConnectionId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(clients.Connect());
    for (int i = 0; i < 300; ++i) {
      const auto id = ids[random.Below(ids.size())];
      const std::string key = "/k" + std::to_string(random.Below(6));
      const std::string value(random.Below(5), static_cast<char>('a' + random.Below(3)));
      switch (random.Below(5)) {
        case 0:
          clients.Set(id, key, value);
          model[key] = value;
          break;
        case 1:
          ASSERT_EQ(clients.Get(id, key), TextBytes(model.contains(key) ? model[key] : ""));
          break;
        case 2:
          ASSERT_EQ(clients.Call(id, RequestBytes(7, {key})), I64(model.erase(key) > 0));
          break;
        case 3:
          clients.Call(id, RequestBytes(8, {key, value}));
          model[key] += value;
          break;
        default:
          ASSERT_EQ(clients.Wait(id, {key}), model.contains(key) ? kZero : "");
          if (!model.contains(key)) {
            ASSERT_EQ(clients.Call(id, RequestBytes(11, {})), kOne);
          }
      }
      ASSERT_EQ(clients.store().keys(), model.size());
    }
    for (const auto& [key, value] : model) clients.Call(ids[0], RequestBytes(7, {key}));
    EXPECT_EQ(clients.store().memory(), Bytes(0));
  }
}

}  // namespace
}  // namespace longhaul::runtime
