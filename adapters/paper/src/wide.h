/* wide.h - 128 bits, for products of two decimals. */
#ifndef PAPER_WIDE_H
#define PAPER_WIDE_H

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 wide_unsigned;

#endif
