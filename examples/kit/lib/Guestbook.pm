package Guestbook;
use strict;
use warnings;

# The application that the files beside this directory serve, each in another way. What guests write stays in a file, so
# workers and scripts all see it; how often somebody came is in their session.
use parent 'Howdah::Kit';

use Fcntl qw(:flock);

# A real one lies where nobody else can write.
my $file = $ENV{GUESTBOOK} // '/tmp/guestbook.txt';

# Of every way to serve it. A real application reads its secret from where only it can.
sub options { return (session => {secret => $ENV{GUESTBOOK_SECRET} // 'only for this example'}) }

sub routes {
    return (
        'GET /'            => 'front_page',
        'GET /entry/:line' => 'entry',
        'POST /entry'      => 'sign',
        'GET /where'       => 'where',
    );
}

sub front_page {
    my ($self, $c) = @_;
    my $visits = ++$c->session->{visits};
    my @items  = map { '<li>' . _quoted($_) . "</li>\n" } _entries();
    my $action = $c->url('/entry');
    return "<!DOCTYPE html><title>Guests</title>\n<ul>\n@items</ul>\n<p>Visit $visits</p>\n"
        . qq{<form method="post" action="$action"><input name="text"><button>Sign</button></form>\n};
}

sub entry {
    my ($self, $c) = @_;
    my $line = $c->param('line');
    return $c->error(404, "There is no entry $line.") if $line !~ /^[1-9]\d*$/a || $line > (my @all = _entries());
    return $c->json({line => 0 + $line, text => $all[$line - 1]});
}

sub sign {
    my ($self, $c) = @_;
    my $text = ($c->param('text') // '') =~ s/\s+/ /gr;
    return $c->error(400, 'What do you want to say?') if $text !~ /\S/;
    open my $out, '>>:encoding(UTF-8)', $file or die "cannot write $file: $!\n";
    flock $out, LOCK_EX or die "cannot lock $file: $!\n";
    print {$out} "$text\n";
    close $out or die "cannot write $file: $!\n";
    return $c->redirect('/', 303);
}

# Who answers: the process, and how many requests this application has had in it.
sub where {
    my ($self, $c) = @_;
    return $c->text(join ' ', $$, ++$self->{requests});
}

sub _entries {
    open my $in, '<:encoding(UTF-8)', $file or return;
    chomp(my @lines = <$in>);
    return @lines;
}

sub _quoted {
    my $text = shift;
    my %as   = ('<' => '&lt;', '>' => '&gt;', '&' => '&amp;', '"' => '&quot;');
    return $text =~ s/([<>&"])/$as{$1}/gr;
}

1;
