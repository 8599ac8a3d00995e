// Nothing of it is used; see context.h.
#pragma once
