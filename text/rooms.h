// Namespaces are called as the folders. Each takes in the names of those that its folder may use, and what those take
// in. What is in model, harness and files is named with its namespace.
#pragma once

namespace text {}
namespace results {
using namespace text;
}
namespace ablations {
using namespace results;
}
namespace study {
using namespace ablations;
}
namespace plots {
using namespace study;
}
namespace cli {
using namespace plots;
}
