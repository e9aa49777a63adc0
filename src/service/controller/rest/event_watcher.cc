#include "service/controller/rest/event_watcher.h"

#include <string>
#include <utility>

namespace longhaul::service {
namespace {

constexpr size_t kStreamBatch = 256;

std::string EventText(const RenderedNotification& notification) {
  return "id: " + std::to_string(notification.id) + "\nevent: " + notification.kind +
         "\ndata: " + notification.json + "\n\n";
}

}  // namespace

EventWatcher::EventWatcher(NotificationFeed& feed, const EventStream& stream,
                           std::shared_ptr<std::atomic<uint64_t>> open,
                           std::function<Instant()> now)
    : feed_(feed),
      stream_(stream),
      through_(stream.after),
      now_(std::move(now)),
      written_(now_()),
      open_(std::move(open)) {}

EventWatcher::~EventWatcher() { --*open_; }

HttpStream::Part EventWatcher::Next() {
  const bool closed = feed_.closed();
  // A view could no longer be requested from a controller that ends.
  if (stream_.view && !closed && feed_.Backlog(through_, stream_.job) > kLongestViewBacklog) {
    return Reset();
  }
  Part part;
  const auto batch = feed_.After(through_, stream_.job, kStreamBatch);
  // The log cannot be read. The client reconnects with the id of the last event that it has seen.
  if (!batch.ok()) return {"", true};
  through_ = batch->through;
  bool over = false;
  for (const RenderedNotification& notification : batch->notifications) {
    part.bytes += EventText(notification);
    over = over || (notification.last && !stream_.job.empty());
  }
  // A job that was over at the start, and whatever it had is written.
  if (batch->notifications.empty()) over = stream_.job_is_over;
  if (over) part.bytes += "event: end\ndata: {}\n\n";
  if (part.bytes.empty()) ReportAlive(part);
  if (!part.bytes.empty()) written_ = now_();
  // Before the controller ends, a reader gets all that was published.
  part.last = over || (batch->notifications.empty() && closed);
  return part;
}

HttpStream::Part EventWatcher::Reset() {
  through_ = feed_.newest();
  written_ = now_();
  return {"id: " + std::to_string(through_) + "\nevent: reset\ndata: {}\n\n", false};
}

void EventWatcher::ReportAlive(Part& part) {
  if (now_() - written_ <= (stream_.view ? kAlive : kKeepAlive)) return;
  part.bytes = stream_.view ? "event: alive\ndata: {}\n\n" : ": still here\n\n";
}

}  // namespace longhaul::service
