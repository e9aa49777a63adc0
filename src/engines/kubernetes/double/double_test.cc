// The double answers as the recorded API server.
#include <gtest/gtest.h>

#include "engines/kubernetes/double/exchanges.h"
#include "engines/kubernetes/double/http_double.h"
#include "io/files/file.h"

namespace longhaul::engines::kubernetes {
namespace {

// The first lines that differ, with those before.
std::string Difference(std::string_view want, std::string_view got) {
  size_t line_start = 0;
  size_t at = 0;
  while (at < want.size() && at < got.size() && want[at] == got[at]) {
    if (want[at] == '\n') line_start = at + 1;
    ++at;
  }
  const size_t label = want.rfind("\n== ", line_start);
  return std::string(want.substr(label, line_start - label)) + "recorded:\n" +
         std::string(want.substr(line_start, 400)) + "\nanswered:\n" +
         std::string(got.substr(std::min(line_start, got.size()), 400));
}

TEST(Double, AnswersAsTheRecordedServer) {
  const auto loop = *io::EventLoop::Create();
  const auto server = *HttpDouble::Start(*loop);
  Access access;
  access.http.server = server->address();
  access.credentials = FixedCredentials({});
  const auto client = *Client::Create(*loop, std::move(access), {});
  server->api().Compact();
  server->SetSecond(std::chrono::milliseconds(20));
  const Result<std::string> transcript = RunExchanges(*loop, *client);
  ASSERT_TRUE(transcript.ok()) << transcript.status();
  const Result<std::string> recorded =
      io::ReadText("src/engines/kubernetes/testdata/transcript.txt", 1 << 20);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_TRUE(*transcript == *recorded) << Difference(*recorded, *transcript);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
