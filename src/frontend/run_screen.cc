#include "frontend/run_screen.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "io/clock.h"

namespace longhaul::frontend {
namespace {

using std::chrono::milliseconds;

constexpr Duration kFramePeriod = milliseconds(100);

std::string OutputJson(const WorkerLine& line) {
  const nlohmann::ordered_json json = {
      {"type", "output"}, {"attempt", line.attempt}, {"rank", line.rank}, {"text", line.text}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

RunScreen::RunScreen(io::EventLoop& loop, RunScreenOptions options)
    : loop_(loop),
      options_(std::move(options)),
      frames_(!options_.json && !options_.quiet && CanDrawFrames()),
      view_(options_.job, options_.began, options_.is_command) {}

RunScreen::~RunScreen() {
  if (draw_planned_) loop_.Cancel(timer_);
}

void RunScreen::Take(const proto::Notification& notification, const std::string& line) {
  if (options_.json) return WriteOut(line);
  view_.Take(notification);
  DrawSoon();
}

void RunScreen::DrawSoon() {
  if (draw_planned_ || options_.json || options_.quiet) return;
  draw_planned_ = true;
  const Duration since = io::MonotonicNow() - drawn_at_;
  timer_ =
      loop_.After(std::max(Duration::zero(), frames_ ? kFramePeriod - since : Duration::zero()),
                  [this] { Draw(); });
}

void RunScreen::Draw() {
  draw_planned_ = false;
  drawn_at_ = io::MonotonicNow();
  if (!frames_) {
    std::string text;
    for (const std::string& line : view_.TakeLines()) text += line + "\n";
    return WriteOut(text);
  }
  (void)view_.TakeLines();
  WriteOut(painter_.Paint(view_.Frame(TerminalStyle(), io::Now())));
  if (!clock_runs_) return;
  draw_planned_ = true;  // clocks and ages move on
  timer_ = loop_.After(std::chrono::seconds(1), [this] {
    if (io::MonotonicNow() - drawn_at_ >= milliseconds(900)) return Draw();
    draw_planned_ = false;
  });
}

void RunScreen::ShowOutput(const std::vector<WorkerLine>& lines) {
  if (options_.quiet) return;
  std::string text;
  for (const WorkerLine& line : lines) {
    const auto& silent = options_.silent_local_ranks;
    const uint32_t local_rank = line.rank % options_.local_ranks;
    if (std::find(silent.begin(), silent.end(), local_rank) != silent.end()) continue;
    text += options_.json
                ? OutputJson(line)
                : LinePrefix(options_.line_prefix, options_.role, line.rank, options_.local_ranks) +
                      Harmless(line.text) + "\n";
  }
  if (!text.empty()) WriteAbove(text);
}

void RunScreen::WriteAbove(const std::string& text) {
  if (frames_) {
    return WriteOut(painter_.Clear() + text +
                    painter_.Paint(view_.Frame(TerminalStyle(), io::Now())));
  }
  if (!options_.json) Draw();
  WriteOut(text);
}

void RunScreen::ShowPage(const std::string& address) {
  if (options_.quiet) return;
  const nlohmann::ordered_json json = {{"type", "page"}, {"address", address}};
  WriteAbove(options_.json ? json.dump() + "\n"
                           : "page: " + address + "  (for one use within 60 s)\n");
}

void RunScreen::Finish() {
  if (!options_.json && !options_.quiet) Draw();
  WriteOut(painter_.Finish());
}

}  // namespace longhaul::frontend
