package Howdah::ClientGone;
use v5.16;
use warnings;

# Made in C (xs/gone.c): a reference to the message.
use overload '""' => sub { ${$_[0]} }, fallback => 1;

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::ClientGone - what a stream dies with when its client has left

=head1 SYNOPSIS

  return sub {
      my $writer = shift->([200, ['Content-Type' => 'text/event-stream']]);
      eval {
          while (my $event = next_event()) { $writer->write($event) }
          $writer->close;
          1;
      } or do {
          die $@ if ref $@ ne 'Howdah::ClientGone';
          warn 'nobody listens any more';
      };
  };

=head1 DESCRIPTION

Once the client of a response has left, C<write> dies with an object of this class, each time. As a string it says so, with
the place in the code. An application need not catch it: uncaught it ends the request like a return, with a line of level
info in the error log and no error; cleanup handlers run. Code that catches every exception should let this one pass.

That the client has left is known when its connection is broken. A client that goes away without a word only ends its
side of the connection, as one does that still wants the response; so the first write after that succeeds, and one of the
next dies, a tenth of a second later or more.

Behind a head without a body (HEAD, 204, 304) nothing is sent that would tell. Who goes on to write one for half a minute is taken to do so
for nobody, too.

With C<--abort-on-disconnect> the exception comes also before and between writes, wherever the application is, by a
signal (URG) whose handler dies. Perl runs it between two operations of the program, so C<sleep>, C<select> and
reading a socket are interrupted, but not a library in C that waits by itself, as those of databases do: there it
comes when they return. Nor does it come while a file is loaded (C<require>, C<use>): a module that is interrupted
could not be loaded again. There the next write dies. The client that only ends its side is then taken for gone. Use
it for applications that compute or wait long for somebody who may not be there any more, and whose work may be given
up at any point: what must not be cut in two, belongs into a transaction, or into a C<local $SIG{URG} = 'IGNORE'>.
What runs behind the response, such as C<psgix.cleanup> handlers, is never interrupted. An application that has taken
C<psgix.io> looks after its connection by itself.

=head1 SEE ALSO

L<Howdah>, L<PSGI/"Delayed Response and Streaming Body">

=cut
