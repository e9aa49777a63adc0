#include "frontend/live_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/format.h"
#include "proto/state_name.h"

namespace longhaul::frontend {
namespace {

constexpr size_t kEventsShown = 6;
constexpr int64_t kStepLinePeriod_ns = 2'000'000'000;
constexpr std::string_view kSeparator = " · ";

enum class Style { kPlain, kBold, kDim, kGood, kWarning, kBad };

std::string_view Escape(Style style) {
  switch (style) {
    case Style::kBold:
      return "\x1b[1m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kGood:
      return "\x1b[32m";
    case Style::kWarning:
      return "\x1b[33m";
    case Style::kBad:
      return "\x1b[31m";
    case Style::kPlain:
      return "";
  }
  return "";
}

// A line made of styled parts; what doesn't fit is cut off before any escape is added.
class LineBuilder {
 public:
  explicit LineBuilder(const ViewStyle& style) : style_(style) {}

  LineBuilder& Add(std::string_view text, Style style = Style::kPlain) {
    const size_t room = style_.columns > used_ ? style_.columns - used_ : 0;
    const std::string fitted = Fit(text, room);
    used_ += Width(fitted);
    if (style_.color && style != Style::kPlain && !fitted.empty()) {
      line_ += std::string(Escape(style)) + fitted + "\x1b[0m";
    } else {
      line_ += fitted;
    }
    return *this;
  }
  // Adds `text` after a separator, or not at all when it doesn't fit.
  LineBuilder& AddWhole(std::string_view text, Style style = Style::kPlain) {
    const std::string_view separator = used_ > kMargin ? "   " : "";
    if (used_ + separator.size() + Width(text) > style_.columns) return *this;
    return Add(separator).Add(text, style);
  }
  LineBuilder& PadTo(size_t column) {
    if (column > used_) Add(std::string(column - used_, ' '));
    return *this;
  }
  size_t used() const { return used_; }
  std::string Take() { return std::move(line_); }

  static constexpr size_t kMargin = 12;  // the width of " snapshots  "

 private:
  ViewStyle style_;
  std::string line_;
  size_t used_ = 0;
};

std::string Bar(double share, size_t cells) {
  static constexpr std::array<std::string_view, 8> kPartial = {"",  "▏", "▎", "▍",
                                                               "▌", "▋", "▊", "▉"};
  const auto eighths =
      static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(cells) * 8);
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kPartial[eighths % 8];
  const size_t used = eighths / 8 + (eighths % 8 != 0 ? 1 : 0);
  for (size_t i = used; i < cells; ++i) bar += "░";
  return bar;
}

Style StyleOf(proto::JobState state) {
  switch (state) {
    case proto::RUNNING:
    case proto::SUCCEEDED:
      return Style::kGood;
    case proto::RECOVERING:
    case proto::LEAVING:
    case proto::STOPPING:
    case proto::STOPPED:
      return Style::kWarning;
    case proto::FAILED:
      return Style::kBad;
    default:
      return Style::kBold;
  }
}

Style StyleOf(proto::MessageNotification::Severity severity) {
  if (severity == proto::MessageNotification::ERROR) return Style::kBad;
  if (severity == proto::MessageNotification::WARNING) return Style::kWarning;
  return Style::kPlain;
}

std::string GangText(const proto::AttemptNotification& attempt) {
  std::string text = Plural(attempt.world(), "worker") + " on ";
  constexpr int kNamesShown = 4;
  if (attempt.gang_size() > kNamesShown) {
    return text + Plural(static_cast<uint64_t>(attempt.gang_size()), "node");
  }
  for (int i = 0; i < attempt.gang_size(); ++i) {
    text += (i == 0 ? "" : ", ") + Harmless(attempt.gang(i));
  }
  return text;
}

std::string RestoreText(const proto::Restore& restore) {
  switch (restore.tier()) {
    case proto::Restore::TIER_MEMORY:
      return "from memory at step " + std::to_string(restore.step());
    case proto::Restore::TIER_PEER:
      return "from a peer's memory at step " + std::to_string(restore.step());
    case proto::Restore::TIER_PIECES:
      return "from memory in another layout at step " + std::to_string(restore.step());
    case proto::Restore::TIER_DISK:
      return "from disk at step " + std::to_string(restore.step());
    case proto::Restore::TIER_SHARED:
      return "from the second tier at step " + std::to_string(restore.step());
    default:
      return "from the start";
  }
}

// Older controllers do not report whether there is one.
bool HasLoss(const proto::StepNotification& step) { return step.has_loss() || step.loss() != 0; }

double SecondsBetween(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) * 1e-9;
}

}  // namespace

LiveView::LiveView(std::string job, Instant started, bool is_command)
    : job_(Harmless(job)),
      started_(started),
      is_command_(is_command),
      last_step_line_ns_(ToNanoseconds(started)) {}

void LiveView::AddEvent(int64_t at_ns, proto::MessageNotification::Severity severity,
                        std::string text) {
  text = Harmless(text);
  const std::string_view mark = severity == proto::MessageNotification::ERROR     ? "error: "
                                : severity == proto::MessageNotification::WARNING ? "warning: "
                                                                                  : "";
  lines_.push_back(Clock(at_ns) + std::string(mark) + text);
  events_.push_back({at_ns, severity, std::move(text)});
  if (events_.size() > kEventsShown) events_.pop_front();
}

void LiveView::Take(const proto::Notification& notification) {
  const int64_t at_ns = notification.at_ns();
  switch (notification.kind_case()) {
    case proto::Notification::kState:
      return TakeState(notification.state(), at_ns);
    case proto::Notification::kAttempt:
      attempt_ = notification.attempt();
      return AddEvent(at_ns, proto::MessageNotification::INFO,
                      "attempt " + std::to_string(attempt_.attempt()) + ": " + GangText(attempt_) +
                          // What a command restores without us is not known.
                          (is_command_ && attempt_.restore().tier() == proto::Restore::TIER_NONE
                               ? ""
                               : ", " + RestoreText(attempt_.restore())));
    case proto::Notification::kStep:
      return TakeStep(notification.step(), at_ns);
    case proto::Notification::kSnapshot:
      return TakeSnapshot(notification.snapshot());
    case proto::Notification::kFault:
      return TakeFault(notification.fault(), at_ns);
    case proto::Notification::kMessage:
      return AddEvent(at_ns, notification.message().severity(), notification.message().text());
    case proto::Notification::kNode:
      return TakeNode(notification.node(), at_ns);
    case proto::Notification::KIND_NOT_SET:
      return;
  }
}

void LiveView::TakeState(const proto::StateNotification& notification, int64_t at_ns) {
  if (state_ == notification.state()) return;
  state_ = notification.state();
  state_reason_ = Headline(notification.reason());
  // Notifications of attempts and faults show the others already.
  if (state_ != proto::QUEUED && state_ < proto::STOPPING) return;
  AddEvent(at_ns,
           state_ == proto::FAILED ? proto::MessageNotification::ERROR
                                   : proto::MessageNotification::INFO,
           std::string(StateName(state_)) + (state_reason_.empty() ? "" : ": " + state_reason_));
}

void LiveView::TakeSnapshot(const proto::SnapshotNotification& snapshot) {
  if (snapshot.tier() == "disk") {
    disk_step_ = snapshot.step();
    ++disk_count_;
  } else if (snapshot.tier() == "memory") {
    memory_step_ = snapshot.step();
    ++memory_count_;
  }
}

void LiveView::TakeNode(const proto::NodeStatus& node, int64_t at_ns) {
  const auto known = nodes_.find(node.name());
  if (known != nodes_.end() && known->second == node.connected()) return;
  nodes_[node.name()] = node.connected();
  AddEvent(
      at_ns,
      node.connected() ? proto::MessageNotification::INFO : proto::MessageNotification::WARNING,
      node.name() +
          (node.connected() ? " joined with " + Plural(node.slots(), "slot") : " is lost"));
}

void LiveView::TakeStep(const proto::StepNotification& step, int64_t at_ns) {
  step_ = step;
  has_step_ = true;
  if (step.has_validation_loss()) {
    validation_loss_ = step.validation_loss();
    has_validation_loss_ = true;
  }
  const bool last = step.total_steps() != 0 && step.step() == step.total_steps();
  if (at_ns - last_step_line_ns_ < kStepLinePeriod_ns && !step.has_validation_loss() && !last) {
    return;
  }
  last_step_line_ns_ = at_ns;
  lines_.push_back(Clock(at_ns) + StepLine());
}

void LiveView::TakeFault(const proto::Fault& fault, int64_t at_ns) {
  const auto [entry, first] = faults_.try_emplace(fault.number());
  FaultSeen& seen = entry->second;
  const std::string name = "fault " + std::to_string(fault.number()) + ": ";
  if (first) {
    AddEvent(at_ns, proto::MessageNotification::WARNING,
             name + Headline(fault.what()) + (fault.injected() ? " (injected)" : ""));
  }
  if (!seen.decided && fault.decided_at_ns() != 0 && !fault.action().empty()) {
    seen.decided = true;
    AddEvent(at_ns, proto::MessageNotification::INFO, name + fault.action());
  }
  const int64_t began =
      fault.happened_at_ns() != 0 ? fault.happened_at_ns() : fault.detected_at_ns();
  if (!seen.restarted && stepless() && fault.started_at_ns() != 0) {
    seen.restarted = true;
    AddEvent(at_ns, proto::MessageNotification::INFO,
             name + "the processes of all workers run again after " +
                 SecondsText(SecondsBetween(began, fault.started_at_ns())) +
                 "; no step has been reported yet");
  }
  if (!seen.recovered && fault.new_step_at_ns() != 0) {
    seen.recovered = true;
    AddEvent(at_ns, proto::MessageNotification::INFO,
             name + "a new step after " +
                 SecondsText(SecondsBetween(began, fault.new_step_at_ns())) + ", " +
                 Plural(fault.lost_steps(), "step") + " done again");
  }
}

std::string LiveView::Clock(int64_t at_ns) const {
  const double seconds = std::max(0.0, SecondsBetween(ToNanoseconds(started_), at_ns));
  const std::string text = Decimal(seconds, 1) + " s  ";
  return text.size() < 10 ? std::string(10 - text.size(), ' ') + text : text;
}

std::string LiveView::StepLine() const {
  std::string line = "step " + std::to_string(step_.step());
  if (step_.total_steps() != 0) line += "/" + std::to_string(step_.total_steps());
  if (HasLoss(step_)) line += "  loss " + Decimal(step_.loss(), 3);
  if (step_.has_validation_loss()) {
    line += "  validation loss " + Decimal(step_.validation_loss(), 3);
  }
  if (step_.tokens_per_second() > 0)
    line += "  " + Compact(step_.tokens_per_second()) + " tokens/s";
  if (step_.eta_seconds() > 0) line += "  ETA " + SecondsText(step_.eta_seconds());
  if (step_.goodput() > 0) line += "  goodput " + Percent(step_.goodput());
  return line;
}

std::vector<std::string> LiveView::TakeLines() { return std::exchange(lines_, {}); }

std::string LiveView::HeadLine(const ViewStyle& style, Instant now) const {
  LineBuilder line(style);
  line.Add(" " + job_, Style::kBold).Add("  ").Add(StateName(state_), StyleOf(state_));
  if (state_ == proto::QUEUED && !state_reason_.empty()) line.Add(": " + state_reason_);
  if (attempt_.attempt() != 0) {
    line.Add(std::string(kSeparator) + "attempt " + std::to_string(attempt_.attempt()))
        .Add(std::string(kSeparator) + GangText(attempt_));
  }
  const double seconds = std::floor(std::max(0.0, ToSeconds(now - started_)));
  const std::string clock = seconds < 60 ? Decimal(seconds, 0) + " s" : SecondsText(seconds);
  if (line.used() + clock.size() + 2 <= style.columns) {
    line.PadTo(style.columns - clock.size() - 1).Add(clock, Style::kDim);
  }
  return line.Take();
}

std::string LiveView::ProgressLine(const ViewStyle& style) const {
  LineBuilder line(style);
  line.Add(" step       ", Style::kDim);
  if (stepless()) return line.Add("not reported by the command").Take();
  if (!has_step_) return line.Add("waiting for the first one").Take();
  if (step_.total_steps() == 0) return line.AddWhole(std::to_string(step_.step())).Take();
  const double share = static_cast<double>(step_.step()) / static_cast<double>(step_.total_steps());
  const size_t cells = style.columns >= 100 ? 40 : style.columns >= 60 ? 24 : 10;
  line.AddWhole(std::to_string(step_.step()) + "/" + std::to_string(step_.total_steps()))
      .AddWhole(Bar(share, cells), Style::kGood)
      .AddWhole(Percent(share, 0));
  if (step_.eta_seconds() > 0 && state_ == proto::RUNNING) {
    line.AddWhole("ETA " + SecondsText(step_.eta_seconds()));
  }
  return line.Take();
}

std::string LiveView::LossLine(const ViewStyle& style) const {
  LineBuilder line(style);
  line.Add(" loss       ", Style::kDim);
  if (has_step_ && HasLoss(step_)) line.AddWhole(Decimal(step_.loss(), 3), Style::kBold);
  if (has_validation_loss_) line.AddWhole("validation " + Decimal(validation_loss_, 3));
  if (has_step_ && step_.gradient_norm() > 0) {
    line.AddWhole("gradient norm " + Decimal(step_.gradient_norm(), 2));
  }
  return line.Take();
}

std::string LiveView::SpeedLine(const ViewStyle& style) const {
  LineBuilder line(style);
  line.Add(" speed      ", Style::kDim);
  if (!has_step_) return line.Take();
  if (step_.tokens_per_second() > 0) {
    line.AddWhole(Compact(step_.tokens_per_second()) + " tokens/s");
  }
  if (step_.step_seconds() > 0) line.AddWhole(SecondsText(step_.step_seconds()) + " a step");
  if (step_.goodput() > 0) line.AddWhole("goodput " + Percent(step_.goodput()));
  constexpr double kStallShown = 0.001;
  if (step_.stall() >= kStallShown) {
    line.AddWhole("stall " + Percent(step_.stall()), Style::kWarning);
  }
  return line.Take();
}

std::string LiveView::SnapshotLine(const ViewStyle& style) const {
  LineBuilder line(style);
  line.Add(" snapshots  ", Style::kDim);
  if (memory_count_ == 0 && disk_count_ == 0) {
    line.AddWhole("none yet");
  } else {
    line.AddWhole("in memory: step " + std::to_string(memory_step_));
    if (disk_count_ != 0) line.AddWhole("on disk: step " + std::to_string(disk_step_));
    line.AddWhole(std::to_string(memory_count_) + " taken", Style::kDim);
  }
  if (!faults_.empty()) line.AddWhole(Plural(faults_.size(), "fault"), Style::kWarning);
  return line.Take();
}

std::string LiveView::EventLine(const Event& event, const ViewStyle& style, Instant now) const {
  const double age = std::max(0.0, SecondsBetween(event.at_ns, ToNanoseconds(now)));
  std::string ago = age < 1      ? "now"
                    : age < 60   ? Decimal(std::floor(age), 0) + " s ago"
                    : age < 3600 ? Decimal(std::floor(age / 60), 0) + " min ago"
                                 : Decimal(std::floor(age / 3600), 0) + " h ago";
  constexpr size_t kAgoWidth = 10;
  if (ago.size() < kAgoWidth) ago = std::string(kAgoWidth - ago.size(), ' ') + ago;
  return LineBuilder(style)
      .Add(" " + ago + "  ", Style::kDim)
      .Add(event.text, StyleOf(event.severity))
      .Take();
}

std::vector<std::string> LiveView::Frame(const ViewStyle& style, Instant now) const {
  std::vector<std::string> lines = {HeadLine(style, now), ProgressLine(style)};
  if (!stepless()) {
    lines.push_back(LossLine(style));
    lines.push_back(SpeedLine(style));
    constexpr size_t kRowsForSnapshots = 8;
    if (style.rows >= kRowsForSnapshots) lines.push_back(SnapshotLine(style));
  }
  const size_t room = style.rows > lines.size() + 1 ? style.rows - lines.size() - 1 : 0;
  const size_t shown = std::min({events_.size(), kEventsShown, room});
  for (size_t i = events_.size() - shown; i < events_.size(); ++i) {
    lines.push_back(EventLine(events_[i], style, now));
  }
  return lines;
}

std::string ScreenPainter::Paint(const std::vector<std::string>& lines) {
  constexpr std::string_view kHideCursor = "\x1b[?25l";
  constexpr std::string_view kClearLine = "\x1b[K";
  constexpr std::string_view kClearBelow = "\x1b[J";
  std::string bytes(kHideCursor);
  if (drawn_ > 0) bytes += "\x1b[" + std::to_string(drawn_) + "A\r";
  for (const std::string& line : lines) {
    bytes += line;
    bytes += kClearLine;
    bytes += "\r\n";
  }
  bytes += kClearBelow;
  drawn_ = lines.size();
  return bytes;
}

std::string ScreenPainter::Clear() {
  if (drawn_ == 0) return "";
  return "\x1b[" + std::to_string(std::exchange(drawn_, 0)) + "A\r\x1b[J";
}

std::string ScreenPainter::Finish() {
  if (drawn_ == 0) return "";
  drawn_ = 0;
  return "\x1b[?25h";
}

}  // namespace longhaul::frontend
