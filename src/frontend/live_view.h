// The view of a run in progress. Pure: notifications and times go in, lines of text come out.
//
// On a terminal, Frame() is the whole picture, which a ScreenPainter draws over the last one.
// Otherwise TakeLines() returns what to append: each event on arrival and a line about the steps
// every 2 seconds. Every line fits the given width; outside text loses its control characters.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "proto/status.pb.h"

namespace longhaul::frontend {

// The size of the picture, and whether it has colours.
struct ViewStyle {
  size_t columns = 80;
  size_t rows = 24;
  bool color = false;
};

class LiveView {
 public:
  // `job` is the name shown until the controller reports another; `started` is when the run began.
  // `is_command`: the workers run a command, which may never report a step; until they do, the view
  // states this and shows neither loss nor speed.
  LiveView(std::string job, Instant started, bool is_command = false);

  void Take(const proto::Notification& notification);

  // The lines of the picture, without line ends: 4 (2 without steps), and more as style.rows
  // allows.
  std::vector<std::string> Frame(const ViewStyle& style, Instant now) const;

  // The plain lines of what has happened since the last call.
  std::vector<std::string> TakeLines();

 private:
  struct Event {
    int64_t at_ns;
    proto::MessageNotification::Severity severity;
    std::string text;
  };

  void TakeState(const proto::StateNotification& notification, int64_t at_ns);
  void TakeStep(const proto::StepNotification& step, int64_t at_ns);
  void TakeSnapshot(const proto::SnapshotNotification& snapshot);
  void TakeNode(const proto::NodeStatus& node, int64_t at_ns);
  void TakeFault(const proto::Fault& fault, int64_t at_ns);
  void AddEvent(int64_t at_ns, proto::MessageNotification::Severity severity, std::string text);
  std::string HeadLine(const ViewStyle& style, Instant now) const;
  std::string ProgressLine(const ViewStyle& style) const;
  std::string LossLine(const ViewStyle& style) const;
  std::string SpeedLine(const ViewStyle& style) const;
  std::string SnapshotLine(const ViewStyle& style) const;
  std::string EventLine(const Event& event, const ViewStyle& style, Instant now) const;
  std::string StepLine() const;
  std::string Clock(int64_t at_ns) const;  // since the start, for plain lines
  bool stepless() const { return is_command_ && !has_step_; }

  std::string job_;
  Instant started_;
  bool is_command_;
  proto::JobState state_ = proto::JOB_STATE_UNSPECIFIED;
  std::string state_reason_;
  proto::AttemptNotification attempt_;
  proto::StepNotification step_;
  bool has_step_ = false;
  double validation_loss_ = 0;
  bool has_validation_loss_ = false;
  uint64_t memory_step_ = 0;
  uint64_t memory_count_ = 0;
  uint64_t disk_step_ = 0;
  uint64_t disk_count_ = 0;
  struct FaultSeen {
    bool decided = false;
    bool restarted = false;  // only for a command that has reported no step
    bool recovered = false;
  };
  std::map<uint32_t, FaultSeen> faults_;
  std::map<std::string, bool> nodes_;  // connected, by name
  std::deque<Event> events_;           // the last few, oldest first

  std::vector<std::string> lines_;  // for TakeLines
  int64_t last_step_line_ns_ = 0;
};

// Draws frames over each other, line by line, without clearing the screen: nothing flickers, and
// the text from before the run stays in the scroll-back.
class ScreenPainter {
 public:
  // The bytes that replace the last frame by this one.
  std::string Paint(const std::vector<std::string>& lines);
  // The bytes that remove the last frame, so that lines can be written in its place; the next frame
  // is drawn below them.
  std::string Clear();
  // The bytes that show the cursor again and place it below the last frame. Empty when no frame was
  // drawn.
  std::string Finish();

 private:
  size_t drawn_ = 0;
};

}  // namespace longhaul::frontend
