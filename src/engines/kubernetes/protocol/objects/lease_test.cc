#include "engines/kubernetes/protocol/objects/lease.h"

#include <gtest/gtest.h>

namespace longhaul::engines::kubernetes {
namespace {

Result<Lease> Read(std::string_view spec) {
  JsonParser parser;
  const PaddedString text(R"({"kind":"Lease","metadata":{"name":"l","namespace":"ns","uid":"u",)"
                          R"("resourceVersion":"7"},"spec":)" +
                          std::string(spec) + "}");
  return ReadLease(parser, text.view());
}

constexpr std::string_view kHeld = R"({"holderIdentity":"a","leaseDurationSeconds":15,
    "acquireTime":"2026-01-31T08:00:00.000000Z","renewTime":"0001-01-01T00:00:00Z",
    "leaseTransitions":3,"strategy":"OldestEmulationVersion","preferredHolder":"b"})";

TEST(Lease, HasItsHolderAndItsNumbers) {
  const Result<Lease> lease = Read(kHeld);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->meta.Key(), "ns/l");
  EXPECT_EQ(lease->meta.resource_version, "7");
  EXPECT_EQ(lease->holder, "a");
  EXPECT_EQ(lease->duration, std::chrono::seconds(15));
  EXPECT_EQ(lease->acquire_time, "2026-01-31T08:00:00.000000Z");
  // Any text: the times of other machines decide nothing.
  EXPECT_EQ(lease->renew_time, "0001-01-01T00:00:00Z");
  EXPECT_EQ(lease->transitions, 3);
}

TEST(Lease, MayHaveNoneOfItsFields) {
  for (const char* const spec :
       {"{}", "null",
        R"({"holderIdentity":null,"leaseDurationSeconds":null,"leaseTransitions":null})"}) {
    const Result<Lease> lease = Read(spec);
    ASSERT_TRUE(lease.ok()) << spec << lease.status();
    EXPECT_EQ(lease->holder, "");
    EXPECT_FALSE(lease->duration.has_value());
    EXPECT_FALSE(lease->transitions.has_value());
  }
  const Result<Lease> longest = Read(R"({"leaseDurationSeconds":2147483647})");
  ASSERT_TRUE(longest.ok()) << longest.status();
  EXPECT_EQ(longest->duration, std::chrono::seconds(2'147'483'647));
}

TEST(Lease, IsRefusedWithTheNameOfTheField) {
  const struct {
    const char* spec;
    const char* message;
  } kRows[] = {
      {"[]", "lease.spec has the wrong type, expected an object"},
      {R"({"holderIdentity":5})",
       "lease.spec.holderIdentity has the wrong type, expected a string"},
      {R"({"renewTime":{}})", "lease.spec.renewTime has the wrong type, expected a string"},
      {R"({"leaseDurationSeconds":"15"})",
       "lease.spec.leaseDurationSeconds has the wrong type, expected a whole number of 64 bits"},
      {R"({"leaseDurationSeconds":2147483648})",
       "lease.spec.leaseDurationSeconds has the wrong type, expected a whole number of 32 bits"},
      {R"({"leaseDurationSeconds":0})",
       "lease.spec.leaseDurationSeconds is 0, expected at least 1"},
      {R"({"leaseTransitions":-1})", "lease.spec.leaseTransitions is -1, expected at least 0"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Read(row.spec).status(), InvalidArgument(row.message)) << row.spec;
  }
}

TEST(Lease, IsRefusedWithoutItsVersion) {
  JsonParser parser;
  const PaddedString text(R"({"metadata":{"name":"l"},"spec":{}})");
  EXPECT_EQ(ReadLease(parser, text.view()).status(),
            InvalidArgument("lease has no metadata.resourceVersion"));
  for (size_t size = 0; size < text.view().text.size(); ++size) {
    const PaddedString cut(text.view().text.substr(0, size));
    EXPECT_FALSE(ReadLease(parser, cut.view()).ok()) << size;
  }
}

// A renewal changes the record; a label, and the version that it costs, do not.
TEST(Lease, IsTheSameRecordWhateverItsMetadata) {
  const Lease held = *Read(kHeld);
  Lease other = held;
  other.meta.resource_version = "8";
  other.meta.labels["a"] = "b";
  EXPECT_TRUE(held.SameRecord(other));
  const auto differs = [&held](auto&& change) {
    Lease changed = held;
    change(changed);
    return !held.SameRecord(changed);
  };
  EXPECT_TRUE(differs([](Lease& lease) { lease.meta.uid = "v"; }));
  EXPECT_TRUE(differs([](Lease& lease) { lease.holder = "b"; }));
  EXPECT_TRUE(differs([](Lease& lease) { lease.duration.reset(); }));
  EXPECT_TRUE(differs([](Lease& lease) { lease.acquire_time = ""; }));
  EXPECT_TRUE(differs([](Lease& lease) { lease.renew_time = "2026-01-31T08:00:00.000001Z"; }));
  EXPECT_TRUE(differs([](Lease& lease) { lease.transitions = 4; }));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
