#include "service/client/sse.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

constexpr std::string_view kStream =
    ": hello\n\nid: 1000\nevent: state\ndata: {\"a\":1}\n\nid: 2000\r\ndata: x\r\ndata: y\r\n\r\n"
    "event: nothing\n\n";

const std::vector<SseEvent> kEvents = {{"1000", "state", "{\"a\":1}"}, {"2000", "message", "x\ny"}};

TEST(SseReader, ReadsEventsWhereverTheBytesAreCut) {
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    SseReader reader;
    auto events = *reader.Feed(kStream.substr(0, cut));
    for (const SseEvent& event : *reader.Feed(kStream.substr(cut))) events.push_back(event);
    EXPECT_EQ(events, kEvents) << "cut at " << cut;
  }
}

TEST(SseReader, RefusesAnEventBeyondItsLimit) {
  SseReader reader(100);
  EXPECT_EQ(reader.Feed("data: " + std::string(200, 'x')).status().code(),
            Code::kResourceExhausted);
}

}  // namespace
}  // namespace longhaul::service
