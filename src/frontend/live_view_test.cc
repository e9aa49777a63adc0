#include "frontend/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace longhaul::frontend::live_view_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kSecond_ns = 1'000'000'000;
constexpr Instant kStart = InstantFromNanoseconds(1'700'000'000 * kSecond_ns);

Instant After(double seconds) { return kStart + DurationFromSeconds(seconds); }

proto::Notification At(double seconds) {
  proto::Notification notification;
  notification.set_at_ns(ToNanoseconds(After(seconds)));
  return notification;
}

proto::Notification StateAt(double seconds, proto::JobState state, const std::string& reason = "") {
  proto::Notification notification = At(seconds);
  notification.mutable_state()->set_state(state);
  notification.mutable_state()->set_reason(reason);
  return notification;
}

proto::Notification StepAt(double seconds, uint64_t number) {
  proto::Notification notification = At(seconds);
  proto::StepNotification& step = *notification.mutable_step();
  step.set_step(number);
  step.set_total_steps(300);
  step.set_attempt(1);
  step.set_loss(2.3141);
  step.set_tokens_per_second(22'345);
  step.set_eta_seconds(80);
  step.set_goodput(0.931);
  step.set_step_seconds(0.312);
  step.set_gradient_norm(0.87);
  return notification;
}

proto::Notification AttemptAt(double seconds, uint64_t number) {
  proto::Notification notification = At(seconds);
  proto::AttemptNotification& attempt = *notification.mutable_attempt();
  attempt.set_attempt(number);
  attempt.add_gang("node-1");
  attempt.add_gang("node-2");
  attempt.set_world(4);
  return notification;
}

proto::Notification MessageAt(double seconds, const std::string& text) {
  proto::Notification notification = At(seconds);
  notification.mutable_message()->set_text(text);
  return notification;
}

LiveView RunningView() {
  LiveView view("headers-gpt", kStart);
  view.Take(AttemptAt(1, 1));
  view.Take(StateAt(2, proto::RUNNING));
  view.Take(StepAt(10, 150));
  return view;
}

TEST(LiveViewFrame, ShowsWhereTheRunIs) {
  const ViewStyle style{.columns = 100, .rows = 30};
  const std::vector<std::string> lines = RunningView().Frame(style, After(42.7));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[0],
              HasSubstr("headers-gpt  running · attempt 1 · 4 workers on node-1, node-2"));
  EXPECT_THAT(lines[0], HasSubstr("42 s"));
  EXPECT_THAT(lines[1], HasSubstr("150/300   ████████████████████░░░░░░░░░░░░░░░░░░░░   50 %"));
  EXPECT_THAT(lines[1], HasSubstr("ETA 1 min 20 s"));
  EXPECT_THAT(lines[2], HasSubstr("2.314   gradient norm 0.87"));
  EXPECT_THAT(lines[3], HasSubstr("22.3k tokens/s   312 ms a step   goodput 93.1 %"));
  EXPECT_THAT(lines[4], HasSubstr("none yet"));
  EXPECT_THAT(lines[5],
              HasSubstr("41 s ago  attempt 1: 4 workers on node-1, node-2, from the start"));
}

TEST(LiveViewFrame, FitsEveryTerminal) {
  LiveView view = RunningView();
  view.Take(MessageAt(11, std::string(500, 'x')));
  for (const size_t columns : {1u, 10u, 20u, 39u, 60u, 80u, 133u, 400u}) {
    for (const size_t rows : {1u, 5u, 8u, 24u}) {
      const auto lines = view.Frame({.columns = columns, .rows = rows}, After(20));
      EXPECT_LT(lines.size(), std::max<size_t>(rows, 5)) << rows << " rows";
      for (const std::string& line : lines) {
        EXPECT_LE(Width(line), columns) << line;
      }
    }
  }
}

TEST(LiveViewFrame, HasEscapesOnlyInColour) {
  const LiveView view = RunningView();
  const auto plain = view.Frame({.columns = 80, .rows = 24, .color = false}, After(20));
  const auto colored = view.Frame({.columns = 80, .rows = 24, .color = true}, After(20));
  for (const std::string& line : plain) EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  EXPECT_THAT(colored[0], HasSubstr("\x1b[32mrunning\x1b[0m"));
}

TEST(LiveView, StripsWhatATerminalWouldActUpon) {
  LiveView view("job\x1b[2J", kStart);
  view.Take(MessageAt(1, "a\nb\x1b]0;title\x07\xc2\x9bJ\xff"));
  for (const std::string& line : view.Frame({.columns = 80, .rows = 24}, After(2))) {
    EXPECT_THAT(line, Not(HasSubstr("\x1b"))) << line;
  }
  EXPECT_THAT(view.TakeLines(), ElementsAre("   1.0 s  a b ]0;title  J?"));
}

TEST(LiveView, SaysThatACommandReportsNoStepsUntilItDoes) {
  LiveView view("job", kStart, /*is_command=*/true);
  view.Take(AttemptAt(1, 1));
  auto frame = view.Frame({.columns = 80, .rows = 24}, After(2));
  ASSERT_EQ(frame.size(), 3u);
  EXPECT_THAT(frame[1], HasSubstr("not reported by the command"));
  EXPECT_THAT(view.TakeLines(), ElementsAre("   1.0 s  attempt 1: 4 workers on node-1, node-2"));
  view.Take(StepAt(3, 1));
  frame = view.Frame({.columns = 80, .rows = 24}, After(4));
  EXPECT_THAT(frame[1], HasSubstr("1/300"));
  EXPECT_THAT(frame[2], HasSubstr("loss"));
}

TEST(LiveView, TellsACommandsRestartByItsProcesses) {
  LiveView view("job", kStart, /*is_command=*/true);
  proto::Notification notification = At(5);
  proto::Fault& fault = *notification.mutable_fault();
  fault.set_number(1);
  fault.set_what(
      "worker 1 exited with code 1: Traceback (most recent call last):\n  File x\nValueError: no");
  fault.set_happened_at_ns(ToNanoseconds(After(4.9)));
  fault.set_started_at_ns(ToNanoseconds(After(5)));
  view.Take(notification);
  EXPECT_THAT(view.TakeLines(),
              ElementsAre("   5.0 s  warning: fault 1: worker 1 exited with code 1: ValueError: no",
                          "   5.0 s  fault 1: the processes of all workers run again after 100 ms; "
                          "no step has been reported yet"));
}

// The processes run again at once. The next step comes seconds later and gets a line of its own.
TEST(LiveView, TellsTheNextStepOfACommandBesideItsProcesses) {
  LiveView view("job", kStart, /*is_command=*/true);
  proto::Notification notification = At(5);
  proto::Fault& fault = *notification.mutable_fault();
  fault.set_number(1);
  fault.set_what("worker 1 was ended by signal 9");
  fault.set_happened_at_ns(ToNanoseconds(After(4.9)));
  fault.set_started_at_ns(ToNanoseconds(After(5)));
  view.Take(notification);
  view.Take(StepAt(8, 1));
  fault.set_new_step_at_ns(ToNanoseconds(After(8.9)));
  view.Take(notification);
  EXPECT_THAT(view.TakeLines(), testing::Contains(HasSubstr("fault 1: a new step after 4 s")));
}

TEST(LiveView, ShowsTheShareOfStallsOnceThereAreSome) {
  LiveView view("job", kStart);
  proto::Notification notification = StepAt(3, 1);
  view.Take(notification);
  EXPECT_THAT(view.Frame({.columns = 80, .rows = 24}, After(4))[3], Not(HasSubstr("stall")));
  notification.mutable_step()->set_stall(0.25);
  view.Take(notification);
  EXPECT_THAT(view.Frame({.columns = 80, .rows = 24}, After(4))[3], HasSubstr("stall 25.0 %"));
}

TEST(LiveViewLines, TellStepsEveryTwoSecondsAndEventsAtOnce) {
  LiveView view("job", kStart);
  for (int i = 1; i <= 50; ++i) view.Take(StepAt(0.1 * i, static_cast<uint64_t>(i)));
  view.Take(MessageAt(5.05, "disk is slow"));
  const std::vector<std::string> lines = view.TakeLines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "   2.0 s  step 20/300  loss 2.314  22.3k tokens/s  ETA 1 min 20 s  goodput 93.1 %");
  EXPECT_THAT(lines[1], HasSubstr("step 40/300"));
  EXPECT_EQ(lines[2], "   5.1 s  disk is slow");
  EXPECT_THAT(view.TakeLines(), IsEmpty());
}

TEST(LiveViewLines, TellEachStageOfAFaultOnce) {
  LiveView view("job", kStart);
  proto::Notification notification = At(10);
  proto::Fault& fault = *notification.mutable_fault();
  fault.set_number(1);
  fault.set_what("worker 1 was killed by signal 9");
  fault.set_injected(true);
  fault.set_happened_at_ns(ToNanoseconds(After(9.9)));
  view.Take(notification);
  fault.set_decided_at_ns(ToNanoseconds(After(10)));
  fault.set_action("restart in place from memory at step 36");
  view.Take(notification);
  fault.set_started_at_ns(ToNanoseconds(After(10.1)));
  view.Take(notification);
  fault.set_lost_steps(4);
  fault.set_new_step_at_ns(ToNanoseconds(After(11.1)));
  view.Take(notification);
  view.Take(notification);
  EXPECT_THAT(view.TakeLines(),
              ElementsAre("  10.0 s  warning: fault 1: worker 1 was killed by signal 9 (injected)",
                          "  10.0 s  fault 1: restart in place from memory at step 36",
                          "  10.0 s  fault 1: a new step after 1.2 s, 4 steps done again"));
}

TEST(ScreenPainter, TakesItsFrameAwayForLinesAboveIt) {
  ScreenPainter painter;
  EXPECT_EQ(painter.Clear(), "");
  (void)painter.Paint({"one", "two"});
  EXPECT_EQ(painter.Clear(), "\x1b[2A\r\x1b[J");
  EXPECT_EQ(painter.Clear(), "");
  EXPECT_EQ(painter.Paint({"one"}).find("\x1b[2A"), std::string::npos);
}

TEST(Headline, IsWhatAMultilineMessageComesDownTo) {
  EXPECT_EQ(Headline("one line"), "one line");
  EXPECT_EQ(Headline("code 1: Traceback (most recent call last):\n  x\nValueError: no\n"),
            "code 1: ValueError: no");
  EXPECT_EQ(Headline("code 2: usage\nmore\nlast\x1b"), "code 2: usage … last ");
}

TEST(ScreenPainter, DrawsOverTheLastFrameAndGivesTheCursorBack) {
  ScreenPainter painter;
  EXPECT_EQ(painter.Finish(), "");
  EXPECT_EQ(painter.Paint({"a", "b"}), "\x1b[?25la\x1b[K\r\nb\x1b[K\r\n\x1b[J");
  EXPECT_EQ(painter.Paint({"c"}), "\x1b[?25l\x1b[2A\rc\x1b[K\r\n\x1b[J");
  EXPECT_EQ(painter.Finish(), "\x1b[?25h");
  EXPECT_EQ(painter.Finish(), "");
}

TEST(Format, KeepsThreeDigits) {
  const struct {
    double number;
    const char* want;
  } kRows[] = {{0, "0"},
               {7, "7"},
               {7.25, "7.25"},
               {640, "640"},
               {999.6, "1.00k"},
               {1000, "1.00k"},
               {22'345, "22.3k"},
               {1'900'000, "1.90M"},
               {-22'345, "-22.3k"},
               {1.0 / 0.0, "-"}};
  for (const auto& row : kRows) EXPECT_EQ(Compact(row.number), row.want) << row.number;
}

TEST(Format, CutsBetweenCodePoints) {
  EXPECT_EQ(Fit("äöüß", 4), "äöüß");
  EXPECT_EQ(Fit("äöüß", 3), "äö…");
  EXPECT_EQ(Fit("äöüß", 1), "…");
  EXPECT_EQ(Fit("äöüß", 0), "");
}

TEST(Format, EscapesWhatWouldFormat) {
  EXPECT_EQ(EscapeXml("<a b=\"c\">&\n"), "&lt;a b=&quot;c&quot;&gt;&amp; ");
  EXPECT_EQ(EscapeMarkdown("a|b *c* <d>"), "a\\|b \\*c\\* \\<d\\>");
}

}  // namespace
}  // namespace longhaul::frontend::live_view_test
