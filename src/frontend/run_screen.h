// What `longhaul run` writes to standard output while the job runs: a live picture on a terminal,
// plain lines elsewhere, one JSON object for each line with --json, or nothing with --quiet; and
// the output of workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "frontend/live_view.h"
#include "frontend/terminal.h"
#include "frontend/worker_logs.h"
#include "io/event_loop.h"
#include "proto/status.pb.h"

namespace longhaul::frontend {

struct RunScreenOptions {
  std::string job;
  Instant began{};
  bool is_command = false;  // not the built-in trainer
  bool json = false;
  bool quiet = false;
  uint32_t local_ranks = 1;                  // workers of a node
  std::vector<uint32_t> silent_local_ranks;  // whose output isn't shown
  std::string line_prefix;                   // LinePrefix
  std::string role;
};

class RunScreen {
 public:
  // Requires that `loop` outlives this.
  RunScreen(io::EventLoop& loop, RunScreenOptions options);
  ~RunScreen();
  RunScreen(const RunScreen&) = delete;
  RunScreen& operator=(const RunScreen&) = delete;

  // `line` is the notification as one line of JSON, with its end.
  void Take(const proto::Notification& notification, const std::string& line);
  void ShowOutput(const std::vector<WorkerLine>& lines);
  // The address of the web page. It has a secret, so it is shown only, and written to no file.
  void ShowPage(const std::string& address);
  // Draws at the end of the present frame.
  void DrawSoon();
  // The job is over: the picture is not drawn anew each second any more.
  void StopClock() { clock_runs_ = false; }
  // Draws for the last time; what is written afterwards is below the picture.
  void Finish();

 private:
  void Draw();
  void WriteAbove(const std::string& text);  // lines that stay, above the picture

  io::EventLoop& loop_;
  const RunScreenOptions options_;
  const bool frames_;
  LiveView view_;
  ScreenPainter painter_;
  bool clock_runs_ = true;
  bool draw_planned_ = false;
  io::EventLoop::TimerId timer_ = 0;  // of the planned drawing
  Instant drawn_at_{};
};

}  // namespace longhaul::frontend
