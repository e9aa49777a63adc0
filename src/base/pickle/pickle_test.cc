#include "base/pickle/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/pickle/pickle_writer.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using Kind = PickleValue::Kind;

constexpr PickleGlobal kAllowed[] = {{"collections.OrderedDict", true}, {"torch.Size"}};

TEST(Pickle, ReadsWhatTheWriterWrote) {
  PickleWriter writer;
  writer.EmptyDict();
  writer.Mark();
  for (const int64_t value :
       {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::max()}) {
    writer.Text("n" + std::to_string(value));
    writer.Int(value);
  }
  writer.Text("real");
  writer.Float(-0.1);
  writer.SetItems();
  const std::string bytes = std::move(writer).Take();
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const PickleValue& root = pickle->root();
  EXPECT_EQ(pickle->Integer(root, "n0", 7), 0);
  EXPECT_EQ(pickle->Integer(root, "n255", 7), 255);
  EXPECT_EQ(pickle->Integer(root, "n256", 7), 256);
  EXPECT_EQ(pickle->Integer(root, "n-1", 7), -1);
  EXPECT_EQ(pickle->Integer(root, "n-9223372036854775808", 7), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(pickle->Integer(root, "n9223372036854775807", 7), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(pickle->Find(root, "real")->real, -0.1);
}

TEST(PickleWriter, WritesIntegersOfAnySize) {
  const struct {
    const char* decimal;
    std::string bytes;
  } kRows[] = {{"0", std::string("\x8a\x01\x00", 3)},
               {"-1", "\x8a\x01\xff"},
               {"128", std::string("\x8a\x02\x80\x00", 4)},
               {"-128", std::string("\x8a\x02\x80\xff", 4)},
               {"18446744073709551616", "\x8a\x09" + std::string(8, '\0') + "\x01"},
               {"-18446744073709551616", "\x8a\x09" + std::string(8, '\0') + "\xff"}};
  for (const auto& row : kRows) {
    PickleWriter writer;
    writer.Long(row.decimal);
    EXPECT_EQ(std::move(writer).Take(), "\x80\x02" + row.bytes + ".") << row.decimal;
  }
}

// b"\x80\x02ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00aK\x01u}b." as pickle.dumps makes it of
// an OrderedDict with an attribute.
TEST(Pickle, TakesAnAllowedDictionaryAsOne) {
  PickleWriter writer;
  writer.Global("collections", "OrderedDict");
  writer.EmptyTuple();
  writer.Reduce();
  writer.Mark();
  writer.Text("a");
  writer.Int(1);
  writer.SetItems();
  writer.EmptyDict();
  writer.Build();
  const std::string bytes = std::move(writer).Take();
  const auto pickle = Pickle::Parse(bytes, {100, kAllowed});
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root().kind, Kind::kDict);
  EXPECT_EQ(pickle->Integer(pickle->root(), "a", 7), 1);
}

TEST(Pickle, KeepsAnObjectAsWhatItWouldBeMadeFrom) {
  PickleWriter writer;
  writer.Global("torch", "Size");
  writer.Mark();
  writer.Int(3);
  writer.Tuple();
  writer.NewObject();
  writer.Text("state");
  writer.Build();
  const std::string bytes = std::move(writer).Take();
  const auto pickle = Pickle::Parse(bytes, {100, kAllowed});
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  ASSERT_EQ(pickle->root().kind, Kind::kObject);
  EXPECT_EQ(pickle->NameOf(pickle->root()), "torch.Size");
  ASSERT_EQ(pickle->ArgumentsOf(pickle->root()).items.size(), 1u);
  EXPECT_EQ(pickle->StateOf(pickle->root())->text, "state");
}

TEST(Pickle, RefusesWhatIsNotOnTheList) {
  using namespace std::string_literals;
  const struct {
    const char* what;
    std::string bytes;  // after the protocol
    const char* reason;
  } kRows[] = {
      {"a shell", "cos\nsystem\n)R."s, "names os.system, which"},
      {"a name in two parts", "ccollections.Ordered\nDict\n."s, "which is not on the list"},
      {"a name cut", "ccollections\nOrdered"s, "it is cut"},
      {"a call of a number", "K\x01)R."s, "calls what is no function"},
      {"arguments that are no tuple", "ctorch\nSize\n]R."s, "arguments are no tuple"},
      {"an extension", "\x82\x01."s, "opcode 0x82"},
      {"a state for a number", "K\x01}b."s, "no object"},
      {"a state alone", "}b."s, "nothing to build"},
      {"a name that is a number", "K\x01K\x02\x93."s, "a name is no text"},
  };
  for (const auto& row : kRows) {
    const std::string bytes = "\x80\x02" + row.bytes;
    const auto pickle = Pickle::Parse(bytes, {100, kAllowed});
    ASSERT_FALSE(pickle.ok()) << row.what;
    EXPECT_THAT(pickle.status().message(), HasSubstr(row.reason)) << row.what;
  }
}

TEST(Pickle, WithoutAListRefusesEveryName) {
  const auto pickle = Pickle::Parse(
      "\x80\x02"
      "ccollections\nOrderedDict\n)R.");
  ASSERT_FALSE(pickle.ok());
  EXPECT_THAT(pickle.status().message(), HasSubstr("it names a class or function"));
}

TEST(Pickle, StopsAtItsLimitOfValues) {
  std::string bytes = "\x80\x02(";
  bytes.append(1000, 'N');
  bytes += "t.";
  EXPECT_EQ(Pickle::Parse(bytes, {100, {}}).status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace longhaul
