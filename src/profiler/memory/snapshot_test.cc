#include "profiler/memory/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/pickle/pickle.h"

namespace longhaul::profiler {
namespace {

using testing::HasSubstr;

std::string Text(const std::string& text) {
  return "\x8c" + std::string(1, static_cast<char>(text.size())) + text;
}
std::string Int(int value) {
  std::string out = "J";
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::string Event(const std::string& action, int address, int bytes, int time_us,
                  const std::string& file) {
  const std::string frame =
      "}(" + Text("filename") + Text(file) + Text("line") + Int(7) + Text("name") + Text("f") + "u";
  return "}(" + Text("action") + Text(action) + Text("addr") + Int(address) + Text("size") +
         Int(bytes) + Text("time_us") + Int(time_us) + Text("frames") + "](" + frame + "eu";
}

// One device: 1000 bytes, then 3000 more (the peak), the first freed, 500 more. 200 bytes that the
// recording did not see begin are freed last; 3,900 are in use at the end, 400 of them unseen.
std::string Snapshot() {
  const std::string events =
      Event("alloc", 1, 1000, 100, "/x/torch/nn.py") +
      Event("alloc", 2, 3000, 200, "/home/u/model.py") + Event("free_completed", 1, 1000, 300, "") +
      Event("alloc", 3, 500, 400, "/home/u/optim.py") + Event("free_completed", 9, 200, 450, "");
  const std::string segment = "}(" + Text("device") + Int(0) + Text("total_size") + Int(8192) +
                              Text("allocated_size") + Int(3900) + "u";
  return "\x80\x04}(" + Text("segments") + "](" + segment + "e" + Text("device_traces") + "](](" +
         events + "eeu.";
}

std::string Frame(const std::string& name, const std::string& file) {
  return "}(" + Text("filename") + Text(file) + Text("line") + Int(7) + Text("name") + Text(name) +
         "u";
}

std::string HolderOf(const std::string& frames) {
  const std::string event = "}(" + Text("action") + Text("alloc") + Text("addr") + Int(1) +
                            Text("size") + Int(64) + Text("time_us") + Int(1) + Text("frames") +
                            "](" + frames + "eu";
  const std::string bytes = "\x80\x04}(" + Text("device_traces") + "](](" + event + "eeu.";
  const auto devices = ReadMemorySnapshot(bytes);
  return devices.ok() ? devices->front().at_peak.front().name
                      : std::string(devices.status().message());
}

// Frames as PyTorch 2.6 wrote them with stacks of both languages: the native ones first.
TEST(ReadMemorySnapshot, TheHolderIsTheUsersFrame) {
  const std::string native = Frame("torch::unwind::unwind()", "??") +
                             Frame("at::_ops::mm::call(at::Tensor const&)", "??") +
                             Frame("cfunction_call", "??");
  EXPECT_EQ(HolderOf(native + Frame("call", "/tmp/torchinductor_u/z3/cz3.py") +
                     Frame("_fn", "/venv/torch/_dynamo/eval_frame.py") +
                     Frame("forward", "/home/u/model.py")),
            "/home/u/model.py:7 forward");
  EXPECT_EQ(HolderOf(native + Frame("torch::autograd::Engine::evaluate_function()", "??") +
                     Frame("execute_native_thread_routine", "thread48.o")),
            "at::_ops::mm::call, on autograd's thread");
}

TEST(ReadMemorySnapshot, FindsThePeakAndWhoHoldsIt) {
  const auto devices = ReadMemorySnapshot(Snapshot());
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 1u);
  const DeviceMemory& device = devices->front();
  EXPECT_EQ(device.before_bytes, 200 + 400);
  EXPECT_EQ(device.peak_bytes, 4000 + 600);
  EXPECT_EQ(device.peak_time_us, 100);
  EXPECT_EQ(device.length_us, 350);
  EXPECT_EQ(device.reserved_bytes, 8192);
  ASSERT_EQ(device.at_peak.size(), 3u);
  EXPECT_EQ(device.at_peak[0].name, "/home/u/model.py:7 f");
  EXPECT_EQ(device.at_peak[0].bytes, 3000);
  EXPECT_EQ(device.at_peak[1].bytes, 1000);
  EXPECT_EQ(device.at_peak[2].name, "before the recording");
  EXPECT_EQ(device.at_peak[2].bytes, 600);
  EXPECT_THAT(MemoryText(*devices), HasSubstr("Device 0: peak 4.49 KiB after 0.000 s"));
}

TEST(Pickle, RefusesWhatNamesOrCallsAFunction) {
  const auto global = Pickle::Parse(
      "\x80\x02"
      "cos\nsystem\n(X\x02\0\0\0lstR.");
  ASSERT_FALSE(global.ok());
  EXPECT_THAT(global.status().message(), HasSubstr("names a class or function"));
  const auto call = Pickle::Parse(")R.");
  ASSERT_FALSE(call.ok());
  EXPECT_THAT(call.status().message(), HasSubstr("calls a function"));
}

TEST(Pickle, RefusesEveryCut) {
  const std::string whole = Snapshot();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Pickle::Parse(whole.substr(0, size)).ok()) << size;
  }
}

TEST(Pickle, ReadsLongIntegersAndWhatItRemembers) {
  using namespace std::string_literals;
  const std::string text =
      "\x80\x04](\x8a\x02\xff\xff\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"s
      "\x8c\x01x\x94h\x00G\x3f\xf8\x00\x00\x00\x00\x00\x00\x65."s;
  const auto pickle = Pickle::Parse(text);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const PickleValue& list = pickle->root();
  ASSERT_EQ(list.items.size(), 5u);
  EXPECT_EQ((*pickle)[list.items[0]].integer, -1);
  EXPECT_EQ((*pickle)[list.items[1]].integer, -1);  // 2^64 - 1, an address
  EXPECT_EQ(list.items[2], list.items[3]);
  EXPECT_DOUBLE_EQ((*pickle)[list.items[4]].real, 1.5);
}

TEST(ReadMemorySnapshot, RefusesOtherPickles) {
  const auto devices = ReadMemorySnapshot("}.");
  ASSERT_FALSE(devices.ok());
  EXPECT_THAT(devices.status().message(), HasSubstr("_dump_snapshot"));
}

}  // namespace
}  // namespace longhaul::profiler
