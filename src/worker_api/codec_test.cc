#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "worker_api/client_codec.h"
#include "worker_api/server_codec.h"

namespace longhaul::worker_api {
namespace {

template <typename Message>
Result<FromWorker> ParseOf(Message message, std::string_view payload = "", int extra = 0) {
  message.header.payload_bytes = static_cast<uint32_t>(static_cast<int>(payload.size()) + extra);
  std::vector<std::byte> packet(sizeof(Message) + payload.size());
  std::memcpy(packet.data(), &message, sizeof(Message));
  std::memcpy(packet.data() + sizeof(Message), payload.data(), payload.size());
  return ParseFromWorker(packet);
}

StepMessage GoodStep() {
  StepMessage step;
  step.step = 3;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  return step;
}

TEST(ServerCodec, TakesWhatAWorkerMaySay) {
  Hello hello;
  hello.pid = 7;
  EXPECT_TRUE(ParseOf(hello).ok());
  EXPECT_TRUE(ParseOf(GoodStep()).ok()) << "an unknown loss is NaN";
  const Result<FromWorker> result = ParseOf(ResultMessage{}, "{\"a\":1}");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(std::get<ResultText>(*result).json, "{\"a\":1}");
  const Result<FromWorker> failed = ParseOf(RestoreFailedMessage{}, "no arena");
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(std::get<RestoreFailed>(*failed).reason, "no arena");
  const Result<FromWorker> waits = ParseOf(WaitsMessage{}, "step 3");
  ASSERT_TRUE(waits.ok());
  EXPECT_EQ(std::get<Waits>(*waits).holders, "step 3");
}

TEST(ServerCodec, RefusesWhatIsOutOfRange) {
  Hello hello;
  EXPECT_EQ(ParseOf(hello).status().code(), Code::kInvalidArgument) << "no process";
  hello.pid = 7;
  hello.version = kProtocolVersion + 1;
  EXPECT_EQ(ParseOf(hello).status().code(), Code::kFailedPrecondition);
  PhaseMessage phase;
  phase.phase = 6;
  EXPECT_FALSE(ParseOf(phase).ok());
  StepMessage step = GoodStep();
  step.step = 0;
  EXPECT_FALSE(ParseOf(step).ok());
  step = GoodStep();
  step.data_ns = -1;
  EXPECT_FALSE(ParseOf(step).ok());
  step = GoodStep();
  step.flops = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(ParseOf(step).ok());
  ArenaRequest request;
  request.bytes = kMaxArenaBytes + 1;
  EXPECT_FALSE(ParseOf(request).ok());
  EXPECT_FALSE(ParseOf(ResultMessage{}, std::string(kMaxResultBytes + 1, 'x')).ok());
  EXPECT_FALSE(ParseOf(GoodStep(), "payload").ok());
  EXPECT_FALSE(ParseOf(ResultMessage{}, "text", 1).ok()) << "a length that lies";
  EXPECT_FALSE(ParseFromWorker({}).ok());
  EXPECT_FALSE(ParseFromWorker(EncodeArena(1)).ok()) << "an agent's message";
}

ContinuesMessage GoodContinues() {
  ContinuesMessage continues;
  continues.rank = 2;
  continues.attempt = 5;
  continues.pid = 7;
  return continues;
}

TEST(ServerCodec, TakesAWorkerThatContinues) {
  const Result<FromWorker> continues = ParseOf(GoodContinues());
  ASSERT_TRUE(continues.ok());
  EXPECT_EQ(std::get<ContinuesMessage>(*continues).rank, 2u);
  EXPECT_EQ(std::get<ContinuesMessage>(*continues).attempt, 5u);
  const Result<FromWorker> left = ParseOf(LeftMessage{});
  ASSERT_TRUE(left.ok());
  EXPECT_TRUE(std::holds_alternative<LeftMessage>(*left));
}

TEST(ServerCodec, RefusesAWorkerThatContinuesOutOfRange) {
  ContinuesMessage continues = GoodContinues();
  continues.pid = 0;
  EXPECT_EQ(ParseOf(continues).status().code(), Code::kInvalidArgument) << "no process";
  continues = GoodContinues();
  continues.rank = 1u << 31;
  EXPECT_EQ(ParseOf(continues).status().code(), Code::kInvalidArgument);
  continues = GoodContinues();
  continues.attempt = UINT64_MAX;
  EXPECT_EQ(ParseOf(continues).status().code(), Code::kInvalidArgument);
  continues = GoodContinues();
  continues.version = kProtocolVersion - 1;
  EXPECT_EQ(ParseOf(continues).status().code(), Code::kFailedPrecondition);
  EXPECT_FALSE(ParseOf(GoodContinues(), "payload").ok());
  EXPECT_FALSE(ParseOf(LeftMessage{}, "payload").ok());
  EXPECT_FALSE(ParseFromWorker(EncodeLeave()).ok()) << "an agent's message";
}

TEST(Continue, CarriesTheEnvironmentIfItFitsOnePacket) {
  const auto packet = EncodeContinue(6, {{"RANK", "1"}, {"WORLD_SIZE", "4"}});
  ASSERT_TRUE(packet.ok());
  const std::string_view text(reinterpret_cast<const char*>(packet->data()), packet->size());
  using namespace std::string_view_literals;
  EXPECT_EQ(text.substr(sizeof(ContinueMessage)), "RANK=1\0WORLD_SIZE=4\0"sv);
  EXPECT_FALSE(EncodeContinue(6, {{"LONG", std::string(kMaxMessageBytes, 'x')}}).ok());
}

TEST(Welcome, ArrivesWholeHoweverManyPacketsItTakes) {
  for (const size_t config_bytes :
       {size_t{0}, size_t{10}, kMaxMessageBytes, 5 * kMaxMessageBytes}) {
    WelcomeContent content;
    content.restore_tier = 2;
    content.restore_step = 40;
    content.restore_rank = 3;
    content.lease_samples = 100;
    content.checkpoint_directory = "/run/checkpoints";
    content.config = std::string(config_bytes, 'c');
    WelcomeAssembler assembler;
    std::optional<WelcomeContent> got;
    const auto packets = EncodeWelcome(content);
    EXPECT_EQ(packets.size() > 1, config_bytes >= kMaxMessageBytes);
    for (const auto& packet : packets) {
      EXPECT_LE(packet.size(), kMaxMessageBytes);
      EXPECT_FALSE(got);
      const Result<FromAgent> parsed = ParseFromAgent(packet);
      ASSERT_TRUE(parsed.ok());
      got = *assembler.Add(std::get<WelcomePart>(*parsed));
    }
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, content);
  }
}

}  // namespace
}  // namespace longhaul::worker_api
